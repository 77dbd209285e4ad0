"""The failures sparklock knows, one class each, and the text every one of them shows.

A failure carries facts as fields; the class composes the text, so that all errors read alike:
place, what is wrong, what was expected and found, and a remedy that is the next command or edit.
The exit code belongs to the kind of failure: manifest 2, lock 3, build 4, node 5, checks 6.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
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
    """Any failure that is the input's, the machine's or a node's, never a bug of sparklock."""

    exit_code: ClassVar[int]

    @property
    @abstractmethod
    def messages(self) -> tuple[Message, ...]:
        """One message per problem, in the order a person should read them."""

    def __str__(self) -> str:
        """All messages as text, separated by empty lines."""
        return "\n\n".join(message.text() for message in self.messages)


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
