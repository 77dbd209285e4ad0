"""Why a table cannot be edited, one class each; `place` names the image and the module."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from builder.errors import BuildError, Message

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(eq=False)
class MissingModuleError(BuildError):
    """A module whose table is to be edited is not in the base; `place` is the register entry."""

    place: str
    path: str
    found: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that names the register entry and the path."""
        return (
            Message(
                place=self.place,
                what="the module to edit is not in the base",
                expected=f"a regular file /{self.path}",
                found=self.found,
                remedy="correct `file`, which is relative to the package, or use another base",
            ),
        )


@dataclass(eq=False)
class ModuleUnreadableError(BuildError):
    """A module is not Python source in UTF-8."""

    place: str
    line: int
    reason: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the parser's own words."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return (
            Message(
                place=f"{self.place}:{self.line}" if self.line else self.place,
                what="the module cannot be read",
                expected=f"Python source in UTF-8, as Python {version} parses it",
                found=self.reason,
                remedy="use another base or donor, or run sparklock with the image's own Python "
                "version if the module needs a newer one",
            ),
        )


@dataclass(eq=False)
class TableNotFoundError(BuildError):
    """A module has no such table."""

    place: str
    table: str
    tables: Sequence[str]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that lists the tables there are, near names first."""
        near = get_close_matches(self.table, self.tables, n=3)
        ordered = [*near, *(name for name in self.tables if name not in near)]
        return (
            Message(
                place=self.place,
                what=f"the module has no table {self.table}",
                expected=f"one module-level assignment of a dict literal to {self.table}",
                found=_tables(ordered),
                remedy="name one of these tables in [[image.register]]"
                if ordered
                else "name another file in [[image.register]]",
            ),
        )


@dataclass(eq=False)
class TableAssignedTwiceError(BuildError):
    """A table's name is bound more than once, so an edit of one literal may not count."""

    place: str
    table: str
    lines: Sequence[int]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the line of every assignment."""
        return (
            Message(
                place=self.place,
                what=f"{self.table} is assigned {len(self.lines)} times",
                expected="one assignment",
                found="lines " + ", ".join(str(line) for line in self.lines),
                remedy="register in another table, or graft the whole module from a donor",
            ),
        )


@dataclass(eq=False)
class TableNotLiteralError(BuildError):
    """A table is not written as a dict literal of the module itself."""

    place: str
    table: str
    line: int
    found: str
    tables: Sequence[str]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that says what the table is instead."""
        return (
            Message(
                place=f"{self.place}:{self.line}",
                what=f"{self.table} is not a dict literal at module level",
                expected=f"{self.table} = {{...}}; {_tables(self.tables)}",
                found=self.found,
                remedy="register in a table that is a dict literal, or graft the whole module "
                "from a donor",
            ),
        )


@dataclass(eq=False)
class TableShapeError(BuildError):
    """A table holds something else than (module, class) pairs."""

    place: str
    table: str
    line: int
    sample: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that shows what the table's values look like."""
        return (
            Message(
                place=f"{self.place}:{self.line}",
                what=f"{self.table} does not register classes",
                expected="values of the form (module, class)",
                found=self.sample,
                remedy="name the table in which the model's kind is registered",
            ),
        )


@dataclass(eq=False)
class TableConflictError(BuildError):
    """The table has some of the keys already, with other values.

    Each conflict is the key, the line of its value, the value asked and the one found.
    """

    place: str
    table: str
    conflicts: Sequence[tuple[str, int, tuple[str, str], str]]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per key."""
        return tuple(
            Message(
                place=f"{self.place}:{line}",
                what=f"{self.table} has {key} already, with another value",
                expected=repr(asked),
                found=found,
                remedy="delete the entry from [[image.register]] to keep the base's, or write "
                "the base's value there",
            )
            for key, line, asked, found in self.conflicts
        )


@dataclass(eq=False)
class TableNotProvenError(BuildError):
    """The edited module is not the source plus the entries, so it is not used."""

    place: str
    table: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message; the layout of the table is one that sparklock does not write correctly."""
        return (
            Message(
                place=self.place,
                what=f"the edit of {self.table} could not be proven",
                expected="the syntax tree of the source with the entries appended",
                found="another syntax tree",
                remedy="graft the whole module from a donor, and report the module's text as a bug",
            ),
        )


def _tables(names: Sequence[str]) -> str:
    return "its tables: " + ", ".join(names) if names else "it has no dict literal at module level"
