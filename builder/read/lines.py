"""The line of every key, table and list item of a TOML text.

No TOML reader for Python tells lines, and an error that only says `nodes[1].fabric.address` makes a
person count tables. This walks over text that tomllib has accepted, so it need not tell good from
bad; it only has to skip values without being misled by what stands inside of them.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from dataclasses import dataclass
from typing import Final, TypeAlias

Loc: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys of tables and 0-based positions in lists."""

_BLANK: Final = re.compile(r"(?:[ \t\n,]|#[^\n]*)*")
"""Space, line ends and comments; commas too, since all they do is separate."""

_SPACE: Final = re.compile(r"[ \t]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"[^,\]}#\n]+")
_STRING: Final = re.compile(
    r'"""(?:[^\\"]++|\\.|"(?!""))*"{3,5}'  # two quotes may stand before the closing three
    r"|'''(?:[^']++|'(?!''))*'{3,5}"
    r'|"(?:[^\\"]++|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)


def key_lines(text: str) -> dict[Loc, int]:
    r"""The 1-based line of each value of a valid TOML text; the empty Loc is the text itself.

    A table or list has the line of its header or key; one that only ever appears inside of dotted
    names has the line of the first. `text` has line ends of `\n`, as tomllib sees it.
    """
    scan = _Scan(text)
    scan.document()
    return scan.lines


@dataclass(frozen=True, slots=True)
class Statement:
    """One `key = value` outside of any value: its table, and its 1-based first and last line."""

    table: Loc
    first: int
    last: int


def statement_at(text: str, loc: Loc) -> Statement:
    r"""The statement of a valid TOML text, with line ends of `\n`, that has a key's value in it."""
    scan = _Scan(text)
    scan.document()
    line = scan.lines[loc]  # of no other statement: no two share a line
    return next(item for item in scan.statements if item.first <= line <= item.last)


def span_of(text: str, loc: Loc) -> slice | None:
    r"""Where the value of a key stands in a valid TOML text with line ends of `\n`, if it does."""
    scan = _Scan(text)
    scan.document()
    return scan.spans.get(loc)


class _Scan:
    """One walk over a text: a position, and the lines found so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ends = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[Loc, int] = {(): 1}
        self.items: dict[Loc, int] = {}
        """How many `[[headers]]` each list of tables has had so far."""
        self.statements: list[Statement] = []
        self.spans: dict[Loc, slice] = {}
        """Where the value of each key stands in the text."""

    def document(self) -> None:
        """Every header and every `key = value` line."""
        table: Loc = ()
        while True:
            self.skip(_BLANK)
            if self.at == len(self.text):
                return
            if self.text.startswith("[[", self.at):
                table = self.list_header()
            elif self.text.startswith("[", self.at):
                table = self.header()
            else:
                first = self.line()
                self.pair(table)
                self.statements.append(Statement(table, first, self.line()))

    def header(self) -> Loc:
        """Past `[a.b]`: where the table is."""
        line = self.line()
        self.at += 1
        loc = self.descend((), self.key(), line)
        self.at += 1
        self.lines[loc] = line
        return loc

    def list_header(self) -> Loc:
        """Past `[[a.b]]`: where the new item is."""
        line = self.line()
        self.at += 2
        *parents, last = self.key()
        self.at += 2
        loc = (*self.descend((), parents, line), last)
        self.lines.setdefault(loc, line)
        number = self.items.get(loc, 0)
        self.items[loc] = number + 1
        self.lines[*loc, number] = line
        return (*loc, number)

    def descend(self, loc: Loc, names: list[str], line: int) -> Loc:
        """The place that names lead to; inside a list of tables, names mean its newest item."""
        for name in names:
            loc = (*loc, name)
            self.lines.setdefault(loc, line)
            if loc in self.items:
                loc = (*loc, self.items[loc] - 1)
        return loc

    def pair(self, table: Loc) -> None:
        """Past `a.b = value`."""
        line = self.line()
        loc = self.descend(table, self.key(), line)
        self.at += 1
        self.skip(_SPACE)
        start = self.at
        self.value(loc)
        self.spans[loc] = slice(start, self.at)

    def key(self) -> list[str]:
        """Past a dotted name and the space around it: its parts."""
        names = []
        while True:
            self.skip(_SPACE)
            names.append(self.simple_key())
            self.skip(_SPACE)
            if self.text[self.at] != ".":
                return names
            self.at += 1

    def simple_key(self) -> str:
        """Past one part of a dotted name: the part, without quotes."""
        if self.text[self.at] not in "\"'":
            return self.skip(_BARE_KEY)
        quoted = self.skip(_STRING)
        return str(tomllib.loads(f"key = {quoted}")["key"])

    def value(self, loc: Loc) -> None:
        """Past a value; what is inside a list or inline table gets its lines."""
        match self.text[self.at]:
            case '"' | "'":
                self.skip(_STRING)
            case "[":
                self.array(loc)
            case "{":
                self.inline_table(loc)
            case _:
                self.skip(_SCALAR)

    def array(self, loc: Loc) -> None:
        """Past `[value, …]`."""
        self.at += 1
        number = 0
        while self.more("]"):
            self.lines[*loc, number] = self.line()
            self.value((*loc, number))
            number += 1

    def inline_table(self, loc: Loc) -> None:
        """Past `{ key = value, … }`."""
        self.at += 1
        while self.more("}"):
            self.pair(loc)

    def more(self, end: str) -> bool:
        """Whether another item stands before the end, which is passed otherwise."""
        self.skip(_BLANK)
        if self.text[self.at] != end:
            return True
        self.at += 1
        return False

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Past what the pattern matches here: that text."""
        match = pattern.match(self.text, self.at)
        assert match is not None, "the text is not valid TOML"
        self.at = match.end()
        return match.group()

    def line(self) -> int:
        """The 1-based line of the position."""
        return bisect.bisect_left(self.ends, self.at) + 1
