"""All results of a run, and the machine that they are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builder.digest import JsonValue
    from tests.bench.machine import Machine
    from tests.bench.result import Result


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What was measured in one run on one machine."""

    machine: Machine
    results: tuple[Result, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of claims that were not met."""
        return tuple(result.name for result in self.results if result.met is False)

    @property
    def met(self) -> bool:
        """Whether every claim of this run holds."""
        return not self.failed

    def text(self) -> str:
        """The results as plain text, the verdict last."""
        claims = sum(result.met is not None for result in self.results)
        verdict = f"{claims - len(self.failed)} of {claims} claims met"
        if self.failed:
            verdict += f"; NOT MET: {', '.join(self.failed)}"
        parts = [*(result.text() for result in self.results), self.machine.text(), verdict]
        return "\n\n".join(parts)

    def markdown(self) -> str:
        """The machine and a table of the results, as docs/speed.md has them."""
        head = ("| name | ours | yardstick | ratio | |", "| --- | --- | --- | --- | --- |")
        machine = "".join(f"    {line}\n" for line in self.machine.text().splitlines())
        return "\n".join([machine, *head, *(result.row() for result in self.results), ""])

    def as_json(self) -> JsonValue:
        """The results as a JSON object."""
        return {
            "met": self.met,
            "failed": list(self.failed),
            "machine": self.machine.as_json(),
            "results": [result.as_json() for result in self.results],
        }
