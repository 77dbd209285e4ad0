"""What every fault came to: a table for people, JSON for scripts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """One fault at one step. `served` is `old`, `new` or `nothing`, before any command.

    `exit` is the controller's status, negative for a signal; `command` what was needed to have a
    pair that serves and nothing left over, `then` what served after it; `said` what it printed.
    """

    fault: str
    step: str
    exit: int
    served: str
    left: tuple[str, ...]
    command: str
    then: str
    said: str


@dataclass
class Outcomes:
    """All outcomes of a test run."""

    rows: list[Outcome] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left_out: int = 0

    def table(self) -> str:
        """Equal outcomes of a fault are one line."""
        groups: dict[tuple[str, ...], list[Outcome]] = {}
        for row in self.rows:
            same = (row.fault, str(row.exit), row.served, row.command, row.then)
            groups.setdefault(same, []).append(row)
        head: tuple[str, ...] = ("fault", "exit", "served", "needed", "then serves", "times", "at")
        lines = [head]
        for key, rows in sorted(groups.items()):
            steps = sorted({row.step for row in rows})
            shown = ", ".join(steps[:3]) + (f" and {len(steps) - 3} more" if steps[3:] else "")
            lines.append((*key, str(len(rows)), shown))
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([asdict(row) for row in self.rows], indent=2) + "\n")
