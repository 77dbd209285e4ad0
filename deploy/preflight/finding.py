"""A finding of preflight: how bad it is, where it shows in the table, and its message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from builder.errors import Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.digest import JsonValue


class Level(Enum):
    """What a finding means for a deployment; only an error stops it."""

    ERROR = "error"
    WARNING = "warning"
    UNKNOWN = "not checked"
    """A warning: what a check needs to know could not be read, so nothing is proven."""
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that preflight found; `nodes` and `row` say where it shows in the table."""

    level: Level
    nodes: tuple[str, ...]
    row: str
    message: Message

    def as_json(self) -> dict[str, JsonValue]:
        """The finding as a JSON object."""
        message: dict[str, JsonValue] = {**self.message.as_json()}
        return {
            "level": self.level.name.lower(),
            "check": self.row,
            "nodes": list(self.nodes),
            **message,
        }


@dataclass(frozen=True, slots=True)
class Spot:
    """Where rules look: a row of the table, and nodes.

    `at` is a part of a node, such as an interface; `place` overrides what the message calls it.
    """

    row: str
    nodes: tuple[str, ...]
    at: str = ""
    place: str = ""

    def error(self, what: str, remedy: str, *, expected: str = "", found: str = "") -> Finding:
        """A finding that stops a deploy."""
        return self._finding(Level.ERROR, what, remedy, expected, found)

    def warning(self, what: str, remedy: str, *, expected: str = "", found: str = "") -> Finding:
        """A finding that a deploy goes on with."""
        return self._finding(Level.WARNING, what, remedy, expected, found)

    def unknown(self, what: str, remedy: str, *, found: str = "") -> Finding:
        """That something could not be read or tried."""
        return self._finding(Level.UNKNOWN, what, remedy, "", found)

    def note(self, what: str, remedy: str, *, expected: str = "", found: str = "") -> Finding:
        """A finding that is only good to know."""
        return self._finding(Level.NOTE, what, remedy, expected, found)

    def _finding(self, level: Level, what: str, remedy: str, expected: str, found: str) -> Finding:
        word = "node" if len(self.nodes) == 1 else "nodes"
        place = self.place or f"{word} {' and '.join(self.nodes)}"
        message = Message(
            place=f"{place}, {self.at}" if self.at else place,
            what=what,
            expected=expected,
            found=found,
            remedy=remedy,
        )
        return Finding(level, self.nodes, self.row, message)


def of_level(findings: Iterable[Finding], *levels: Level) -> tuple[Finding, ...]:
    """The findings of these levels, in their order."""
    return tuple(finding for finding in findings if finding.level in levels)


def errors_of(findings: Iterable[Finding]) -> tuple[Message, ...]:
    """The messages of those that stop a deploy."""
    return tuple(finding.message for finding in of_level(findings, Level.ERROR))


def warnings_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that a deploy goes on with and that somebody should read."""
    return of_level(findings, Level.WARNING, Level.UNKNOWN)
