"""Failures of grafting: a package or file that is not there, a table that cannot be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.errors import BuildError, Message

if TYPE_CHECKING:
    from builder.graft.findings import Finding


class ClosureError(BuildError):
    """The assembled image would fail in a container."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__()
        self.findings = findings

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per finding, in the findings' order."""
        return tuple(finding.message for finding in self.findings)
