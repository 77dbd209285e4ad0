"""What `inv status --drift` says: every difference, who made it, and what puts it right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.errors import ChecksFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from builder.digest import JsonValue
    from builder.errors import SparklockError
    from deploy.drift_facts import Difference

LONG: Final = 72
"""Characters from which on two texts are shortened to where they differ."""

CONTEXT: Final = 2


@dataclass(frozen=True, slots=True)
class DriftReport:
    """What runs against what is wanted, on the nodes that could be asked.

    `compared` counts settings and model files; `failure` is why some nodes are not in it.
    """

    cluster: str
    generation: int
    nodes: tuple[str, ...]
    compared: int
    differences: tuple[Difference, ...]
    failure: SparklockError | None = None

    def text(self) -> str:
        """The report as lines of plain text."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        title = f"{self.cluster}: generation {self.generation}"
        if not self.differences:
            places = f"{self.compared} settings and files on {', '.join(self.nodes)}"
            yield f"{title} is as locked: {places}"
            return
        yield f"{title}, {_count(len(self.differences))} from the lock:"
        for item in self.differences:
            yield f"{item.node}  {item.what}"
            expected, found = apart(item.expected, item.found)
            yield f"  expected: {expected}"
            yield f"  found:    {found}"
            yield f"  who:      {item.cause.value}"
            yield f"  remedy:   {item.remedy}"

    def as_json(self) -> dict[str, JsonValue]:
        """The report as a JSON object; `cause` is inputs, person, disk or unknown."""
        return {
            "cluster": self.cluster,
            "generation": self.generation,
            "drift": bool(self.differences),
            "nodes": list(self.nodes),
            "compared": self.compared,
            "differences": [
                {
                    "node": item.node,
                    "what": item.what,
                    "expected": item.expected,
                    "found": item.found,
                    "cause": item.cause.name.lower(),
                    "remedy": item.remedy,
                }
                for item in self.differences
            ],
            "failures": []
            if self.failure is None
            else [message.as_json() for message in self.failure.messages],
        }

    @property
    def exit_code(self) -> int:
        """0 if nothing differs, else as for checks that failed (6)."""
        return ChecksFailedError.exit_code if self.differences else 0


def apart(one: str, other: str) -> tuple[str, str]:
    """Two texts for people: of long ones, only the words from the first to the last that differ.

    Two words before stay, so that an option is seen with its value; `…` stands for what is equal.
    """
    if max(len(one), len(other)) <= LONG:
        return one, other
    words, others = one.split(" "), other.split(" ")
    before = _equal(words, others)
    after = _equal(words[before:][::-1], others[before:][::-1])
    start = max(before - CONTEXT, 0)
    return _part(words, start, len(words) - after), _part(others, start, len(others) - after)


def _equal(words: Sequence[str], others: Sequence[str]) -> int:
    """How many words both begin with."""
    pairs = zip(words, others, strict=False)
    return next(
        (at for at, (word, other) in enumerate(pairs) if word != other),
        min(len(words), len(others)),
    )


def _part(words: Sequence[str], start: int, stop: int) -> str:
    """The words in between, with a mark for those that are left out."""
    return " ".join((*["…"][: start > 0], *words[start:stop], *["…"][: stop < len(words)]))


def _count(number: int) -> str:
    return "1 difference" if number == 1 else f"{number} differences"
