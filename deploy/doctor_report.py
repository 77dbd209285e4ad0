"""What `inv doctor` comes to: the nodes side by side, then every finding, errors first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import NodeError
from deploy.doctor_table import drawn
from deploy.errors import NodesFailedError
from deploy.node_errors import OneNodeError, SshError
from deploy.preflight import rows
from deploy.preflight.finding import Finding, Level, of_level, warnings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from builder.digest import JsonValue
    from builder.errors import SparklockError
    from deploy.doctor_table import Row


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """Every node as it was found, and what is wrong with it."""

    cluster: str
    nodes: tuple[str, ...]
    table: tuple[Row, ...]
    findings: tuple[Finding, ...]

    @property
    def fit(self) -> bool:
        """Whether nothing was found that stops a deploy."""
        return not of_level(self.findings, Level.ERROR)

    @property
    def exit_code(self) -> int:
        """What the task ends with: 5 if a deploy would be stopped, else 0."""
        return 0 if self.fit else NodeError.exit_code

    def text(self) -> str:
        """The table, then errors, warnings and notes as lines of plain text."""
        lines = drawn(self.nodes, self.table, self.findings)
        for title, found in self._parts():
            if found:
                lines += ["", f"{title}:"]
                lines += [f"\n{finding.message.text()}" for finding in found]
        return "\n".join([*lines, "", self._verdict()])

    def _parts(self) -> Iterator[tuple[str, Sequence[Finding]]]:
        yield "errors, which stop a deploy", of_level(self.findings, Level.ERROR)
        yield "warnings, which do not", of_level(self.findings, Level.WARNING)
        yield "not checked, so not proven", of_level(self.findings, Level.UNKNOWN)
        yield "good to know", of_level(self.findings, Level.NOTE)

    def _verdict(self) -> str:
        errors = len(of_level(self.findings, Level.ERROR))
        unknown = len(of_level(self.findings, Level.UNKNOWN))
        warnings = len(warnings_of(self.findings)) - unknown
        counted = f"errors {errors}, warnings {warnings}, not checked {unknown}"
        return f"{self.cluster}: {'fit for a deploy' if self.fit else 'not fit'}: {counted}"

    def as_json(self) -> dict[str, JsonValue]:
        """The report as a JSON object."""
        nodes: list[JsonValue] = [
            {
                "node": name,
                "facts": {row.name: row.cells[index] for row in self.table if row.cells[index]},
            }
            for index, name in enumerate(self.nodes)
        ]
        return {
            "cluster": self.cluster,
            "fit": self.fit,
            "nodes": nodes,
            "findings": [finding.as_json() for finding in self.findings],
        }


def unreached(failures: Sequence[SparklockError], row: str) -> Iterator[Finding]:
    """Findings of the nodes that could not be asked, each with why: of ssh, or else of `row`."""
    for failure in failures:
        if isinstance(failure, NodesFailedError):
            yield from unreached(failure.failures, row)
            continue
        at = rows.SSH if isinstance(failure, SshError) else row
        nodes = (failure.node,) if isinstance(failure, OneNodeError) else ()
        for message in failure.messages:
            yield Finding(Level.ERROR, nodes, at, message)


def unlocked(error: SparklockError) -> Iterator[Finding]:
    """That there is no lock to compare with, so that image and model were not looked at."""
    for message in error.messages:
        yield Finding(Level.UNKNOWN, (), rows.LOCK, message)
