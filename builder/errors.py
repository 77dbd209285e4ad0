"""The failures sparklock knows, one class each, and the text every one of them shows.

A failure carries facts as fields; the class composes the text, so that all errors read alike:
place, what is wrong, what was expected and found, and a remedy that is the next command or edit.
The exit code belongs to the kind of failure: manifest 2, lock 3, build 4, node 5, checks 6.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Message:
    """What a person needs to know of one failure.

    `place` is `cluster.toml:12: nodes[1].hcas[0]`, `node spark-b, rank 1`, a file path or a blob
    digest. `expected`, `found` and `detail` may be empty; `detail` quotes output,
    such as a log's end. `remedy` may have further lines, to be copied as they are.
    """

    place: str
    what: str
    remedy: str
    expected: str = ""
    found: str = ""
    detail: str = ""

    def text(self) -> str:
        """The message as a few lines of plain text, without a newline at the end."""
        lines = [f"{self.place}: {self.what}"]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.found:
            lines.append(f"  found:    {self.found}")
        if self.detail:
            lines.extend(f"  | {line}" for line in self.detail.splitlines())
        lines.append(f"  remedy:   {self.remedy}".replace("\n", f"\n{' ' * 12}"))
        return "\n".join(lines)

    def of(self, error: SparklockError) -> Message:
        """The message whose parts are this one's, each a format string, with an error's values."""
        facts = _Facts(error)
        texts = ((part.name, getattr(self, part.name)) for part in fields(self))
        return Message(**{name: text.format_map(facts) for name, text in texts})

    def as_json(self) -> dict[str, str]:
        """The message as a JSON object of strings; empty parts are left out."""
        parts = {
            "place": self.place,
            "what": self.what,
            "expected": self.expected,
            "found": self.found,
            "detail": self.detail,
            "remedy": self.remedy,
        }
        return {key: value for key, value in parts.items() if value}


class SparklockError(Exception):
    """Any failure that is the input's, the machine's or a node's, never a bug of sparklock.

    A class whose message is always of one shape states it as its `template`, with fields in braces;
    others compose their `messages`.
    """

    exit_code: ClassVar[int]
    template: ClassVar[Message]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per problem, in the order a person should read them."""
        return (self.template.of(self),)

    def __str__(self) -> str:
        """All messages as text, separated by empty lines."""
        return "\n\n".join(message.text() for message in self.messages)


class _Facts:
    """The attributes of an error by name, as str.format_map asks for them."""

    def __init__(self, error: SparklockError) -> None:
        self._error = error

    def __getitem__(self, name: str) -> object:
        return getattr(self._error, name)


class ManifestError(SparklockError):
    """The manifest cannot be used."""

    exit_code = 2


class LockError(SparklockError):
    """The lock is missing, stale, unreadable, or differs from what was built."""

    exit_code = 3


class BuildError(SparklockError):
    """The image cannot be assembled, or its closure is open."""

    exit_code = 4


class NodeError(SparklockError):
    """A node, or the way to it, is not as it has to be."""

    exit_code = 5


class ChecksFailedError(SparklockError):
    """The pair runs but does not prove what it should."""

    exit_code = 6
