"""What `inv status --drift` says: every difference, who made it, and what puts it right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import ChecksFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import JsonValue
    from builder.errors import SparklockError
    from deploy.drift_facts import Difference


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
            yield f"  expected: {item.expected}"
            yield f"  found:    {item.found}"
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


def _count(number: int) -> str:
    return "1 difference" if number == 1 else f"{number} differences"
