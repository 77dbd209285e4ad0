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

    template = Message(
        place="{place}",
        what="the module to edit is not in the base",
        expected="a regular file /{path}",
        found="{found}",
        remedy="correct `file`, which is relative to the package, or use another base",
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
                expected=f"one assignment of a dict, list or call to {_variable(self.table)}",
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
    """What a name stands for is not written as a table for such entries; `tables` are near."""

    place: str
    table: str
    line: int
    found: str
    tables: Sequence[str]
    keyed: bool

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that says what the table is instead."""
        near = get_close_matches(self.table, self.tables, n=3)
        ordered = [*near, *(name for name in self.tables if name not in near)]
        entries = "entries = { key = value }" if self.keyed else "entries = [ value ]"
        wanted = "{...} or a call with keywords" if self.keyed else "[...]"
        return (
            Message(
                place=f"{self.place}:{self.line}",
                what=f"{self.table} is no table for {entries}",
                expected=f"{_variable(self.table)} = {wanted}; {_tables(ordered)}",
                found=self.found,
                remedy="name the table itself, write the entries in its form, or change the "
                "module with [[image.patch]]",
            ),
        )


@dataclass(eq=False)
class TableShapeError(BuildError):
    """A table holds values of another kind than the one asked; `inside` are tables in it."""

    place: str
    table: str
    wanted: str
    line: int
    sample: str
    inside: Sequence[str] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message that shows what the table's values look like."""
        inside = f", or one inside: {', '.join(self.inside)}" if self.inside else ""
        return (
            Message(
                place=f"{self.place}:{self.line}",
                what=f"{self.table} has no value of the kind that is to be registered",
                expected=f"values like {self.wanted}",
                found=self.sample,
                remedy=f"name the table in which such values stand{inside}; or write the value "
                "as the table's own are",
            ),
        )


@dataclass(eq=False)
class TableConflictError(BuildError):
    """The table has some of the keys already, with other values.

    Each conflict is the key, the line of its value, the value asked and the one found, both
    as Python writes them.
    """

    place: str
    table: str
    conflicts: Sequence[tuple[str, int, str, str]]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per key."""
        return tuple(
            Message(
                place=f"{self.place}:{line}",
                what=f"{self.table} has {key} already, with another value",
                expected=asked,
                found=found,
                remedy="delete the entry from [[image.register]] to keep the base's, or write "
                "the base's value there",
            )
            for key, line, asked, found in self.conflicts
        )


@dataclass(eq=False)
class TableChangedLaterError(BuildError):
    """The module takes an entry out of the table, or sets it, after the table was written out."""

    place: str
    table: str
    line: int
    found: str

    template = Message(
        place="{place}:{line}",
        what="the module changes {table} again, in what is asked of it",
        expected="a table that keeps its entries when the module runs",
        found="{found}",
        remedy="change these lines with [[image.patch]] instead",
    )


@dataclass(eq=False)
class NameNotBoundError(BuildError):
    """An entry's bare name means nothing where the table stands; `later` is a line behind it."""

    place: str
    table: str
    name: str
    later: int | None
    names: Sequence[str]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with names like it."""
        near = get_close_matches(self.name, self.names, n=3)
        found = f"near names: {', '.join(near)}" if near else "no name like it"
        if self.later is not None:
            found = f"{self.name} is bound later, in line {self.later}"
        return (
            Message(
                place=self.place,
                what=f"the module does not know {self.name} where {self.table} stands",
                expected=f"{self.name} defined or imported above the table",
                found=found,
                remedy="correct the name, or add its import with [[image.patch]], which is "
                "applied before tables are edited",
            ),
        )


@dataclass(eq=False)
class TableNotProvenError(BuildError):
    """The edited module is not the source plus the entries, so it is not used."""

    place: str
    table: str

    template = Message(
        place="{place}",
        what="the edit of {table} could not be proven",
        expected="the syntax tree of the source with the entries appended",
        found="another syntax tree",
        remedy="graft the whole module from a donor, and report the module's text as a bug",
    )


def _tables(names: Sequence[str]) -> str:
    return "its tables: " + ", ".join(names) if names else "it has no table"


def _variable(table: str) -> str:
    """The name of a table without the keys that lead into it."""
    return table.partition("[")[0]
