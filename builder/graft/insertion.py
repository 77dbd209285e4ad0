"""Where and how entries are written into the text of a dict literal.

Everything here counts in bytes, as `ast` does: its columns are offsets into UTF-8. Text is only
inserted, at one or two places, so every other byte of the module stays what it was.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

_NEWLINE = re.compile(rb"\r\n|\r|\n")
"""The line ends of Python's tokenizer."""

_TAIL = re.compile(rb"#[^\r\n]*|[,)]")
"""What may follow the last item: comments, which are skipped, its parentheses and a comma."""

_LINE_WIDTH = 88
"""The width at which vLLM's own formatter breaks a tuple into lines."""

Entry = tuple[str, tuple[str, str]]


def with_entries(source: bytes, table: ast.Dict, entries: Sequence[Entry]) -> bytes:
    """The source with the entries written after the last item of the dict literal.

    `table` is a node of `source`, which has no byte order mark. The layout is the literal's own:
    lines of their own when the closing brace has one, else lines below the last item when items
    begin lines, else the same line. A comment after the last item stays before the new entries.
    """
    text = _Text(source, _line_starts(source))
    opening = text.offset(table.lineno, table.col_offset)
    closing = text.offset(table.end_lineno, table.end_col_offset) - 1
    tail = _tail(text, table, opening, closing)
    indent = _item_indent(text, table)
    if text.indent_of(closing) == source[text.line_start(closing) : closing]:
        own = indent if indent is not None else text.indent_of(opening) + b"    "
        lines = b"".join(_lines(entry, own, text.newline(closing)) for entry in entries)
        start = text.line_start(closing)
        comma = b"" if tail.comma else b","
        return source[: tail.end] + comma + source[tail.end : start] + lines + source[start:]
    lead = b"" if tail.comma else b","
    gap = b" " if indent is None else text.newline(closing) + indent
    written = lead + b",".join(gap + _one_line(entry) for entry in entries)
    if not table.values:
        written = written.removeprefix(gap)
    elif tail.comma:
        written += b","
    return source[: tail.end] + written + source[tail.end :]


@dataclass(frozen=True, slots=True)
class _Text:
    """A module's bytes, addressed by line and column."""

    source: bytes
    starts: tuple[int, ...]

    def offset(self, line: int | None, column: int | None) -> int:
        """The offset of a line (from 1) and a column in bytes (from 0)."""
        assert line is not None  # of a parsed node
        assert column is not None
        return self.starts[line - 1] + column

    def line_start(self, offset: int) -> int:
        """The offset at which the line of an offset begins."""
        return self.starts[bisect_right(self.starts, offset) - 1]

    def indent_of(self, offset: int) -> bytes:
        """The white space at the beginning of the line of an offset."""
        match = re.compile(rb"[ \t\f]*").match(self.source, self.line_start(offset))
        assert match is not None  # it matches the empty string
        return match[0]

    def newline(self, offset: int) -> bytes:
        """The line end before the line of an offset, which is not the first."""
        start = self.line_start(offset)
        return b"\r\n" if self.source[:start].endswith(b"\r\n") else self.source[start - 1 : start]


@dataclass(frozen=True, slots=True)
class _Tail:
    """Where the last item ends, and whether a comma ends it; `end` is behind the comma then.

    An empty literal ends behind its opening brace and needs no comma.
    """

    end: int
    comma: bool


def _line_starts(source: bytes) -> tuple[int, ...]:
    return (0, *(match.end() for match in _NEWLINE.finditer(source)))


def _tail(text: _Text, table: ast.Dict, opening: int, closing: int) -> _Tail:
    if not table.values:
        return _Tail(opening + 1, comma=True)
    last = table.values[-1]
    end = text.offset(last.end_lineno, last.end_col_offset)
    comma = False
    for match in _TAIL.finditer(text.source, end, closing):
        if not match[0].startswith(b"#"):
            end = match.end()
            comma = match[0] == b","
    return _Tail(end, comma)


def _item_indent(text: _Text, table: ast.Dict) -> bytes | None:
    """The indentation of the last item that begins its line; None if none does."""
    for key, value in zip(reversed(table.keys), reversed(table.values), strict=True):
        first = value if key is None else key
        offset = text.offset(first.lineno, first.col_offset)
        before = text.source[text.line_start(offset) : offset]
        if before.strip() in ({b""} if key is not None else {b"**"}):
            return text.indent_of(offset)
    return None


def _one_line(entry: Entry) -> bytes:
    key, (module, name) = entry
    return f"{_literal(key)}: ({_literal(module)}, {_literal(name)})".encode()


def _lines(entry: Entry, indent: bytes, newline: bytes) -> bytes:
    """The entry on a line of its own, or with one line per part when it would be too long."""
    line = indent + _one_line(entry) + b","
    if len(line.decode()) <= _LINE_WIDTH:
        return line + newline
    inner = indent + (b"\t" if b"\t" in indent else b"    ")
    key, value = entry
    parts = [inner + _literal(part).encode() + b"," for part in value]
    return newline.join([indent + _literal(key).encode() + b": (", *parts, indent + b"),", b""])


def _literal(text: str) -> str:
    """A Python string literal in double quotes.

    JSON's escapes are Python's too, but for one: in its ASCII form, a character beyond the basic
    plane is two surrogates, which Python would not join.
    """
    return json.dumps(text, ensure_ascii=False)
