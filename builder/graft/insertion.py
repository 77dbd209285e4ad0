"""Where and how entries are written into the text of a table.

Everything here counts in bytes, as `ast` does: its columns are offsets into UTF-8. Text is only
inserted, at one or two places, so every other byte of the module stays what it was.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.graft.entries import is_keyword_name, literal_text, value_parts, value_text
from builder.graft.table_forms import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from builder.graft.entries import Entry, Style
    from builder.graft.table_forms import Table

_NEWLINE = re.compile(rb"\r\n|\r|\n")
"""The line ends of Python's tokenizer."""

_TAIL = re.compile(rb"#[^\r\n]*|[,)]")
"""What may follow the last item: comments, which are skipped, its parentheses and a comma."""

_OPENING = re.compile(rb"#[^\r\n]*|[(\[]")
"""What may stand between a function and its arguments: comments, and the opening bracket."""

_LINE_WIDTH = 88
"""The width at which vLLM's own formatter breaks a value into lines."""


def with_entries(source: bytes, table: Table, entries: Sequence[Entry], style: Style) -> bytes:
    """The source with the entries written after the last one of the table.

    The table is of `source`, which has no byte order mark. The layout is the table's own:
    lines of their own when the closing bracket has one, else lines below the last item when items
    begin lines, else the same line. A comment after the last item stays before the new entries.
    """
    text = _Text(source, _line_starts(source))
    opening, closing = _brackets(text, table)
    tail = _tail(text, table, opening, closing)
    indent = _item_indent(text, table)
    written = [_Written(table.form, entry, style) for entry in entries]
    if text.indent_of(closing) == source[text.line_start(closing) : closing]:
        own = indent if indent is not None else text.indent_of(opening) + b"    "
        lines = b"".join(entry.lines(own, text.newline(closing)) for entry in written)
        start = text.line_start(closing)
        comma = b"" if tail.comma else b","
        return source[: tail.end] + comma + source[tail.end : start] + lines + source[start:]
    lead = b"" if tail.comma else b","
    gap = b" " if indent is None else text.newline(closing) + indent
    added = lead + b",".join(gap + entry.line() for entry in written)
    if not table.children:
        added = added.removeprefix(gap)
    if (tail.comma and table.children) or _needs_comma(table, entries):
        added += b","
    return source[: tail.end] + added + source[tail.end :]


def _needs_comma(table: Table, entries: Sequence[Entry]) -> bool:
    """Whether parentheses make a tuple of the entries only with a comma."""
    return isinstance(table.node, ast.Tuple) and not table.children and len(entries) == 1


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

    def start(self, node: ast.expr | ast.keyword) -> int:
        """The offset at which a node begins."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.keyword) -> int:
        """The offset behind a node."""
        return self.offset(node.end_lineno, node.end_col_offset)

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

    An empty table ends behind its opening bracket and needs no comma.
    """

    end: int
    comma: bool


def _line_starts(source: bytes) -> tuple[int, ...]:
    return (0, *(match.end() for match in _NEWLINE.finditer(source)))


def _brackets(text: _Text, table: Table) -> tuple[int, int]:
    """The offsets of the opening and the closing bracket around the entries."""
    closing = text.end(table.node) - 1
    match table.node:
        case ast.Call(func=before) | ast.Subscript(value=before):
            found = _OPENING.finditer(text.source, text.end(before), closing + 1)
            return next(item.start() for item in found if item[0] in (b"(", b"[")), closing
        case node:
            return text.start(node), closing


def _tail(text: _Text, table: Table, opening: int, closing: int) -> _Tail:
    children = table.children
    if not children:
        return _Tail(opening + 1, comma=True)
    end = text.end(children[-1])
    comma = False
    for match in _TAIL.finditer(text.source, end, closing):
        if not match[0].startswith(b"#"):
            end = match.end()
            comma = match[0] == b","
    return _Tail(end, comma)


def _item_indent(text: _Text, table: Table) -> bytes | None:
    """The indentation of the last item that begins its line; None if none does."""
    for first, stars in reversed(table.first_nodes()):
        offset = text.start(first)
        before = text.source[text.line_start(offset) : offset]
        if before.strip() in ({b"**"} if stars else {b""}):
            return text.indent_of(offset)
    return None


@dataclass(frozen=True, slots=True)
class _Written:
    """An entry as its table's form writes it."""

    form: Form
    entry: Entry
    style: Style

    def line(self) -> bytes:
        """The entry on one line, without a comma."""
        before, after = self._around()
        return (before + value_text(self.entry.value, self.style) + after).encode()

    def lines(self, indent: bytes, newline: bytes) -> bytes:
        """The entry on a line of its own, or with one line per part when it would be too long."""
        line = indent + self.line() + b","
        parts = value_parts(self.entry.value)
        if len(line.decode()) <= _LINE_WIDTH or not parts:
            return line + newline
        before, after = self._around()
        inner = indent + (b"\t" if b"\t" in indent else b"    ")
        start = indent + (before + self.style.opening).encode()
        end = indent + (self.style.closing + after).encode() + b","
        return newline.join([start, *(inner + part.encode() + b"," for part in parts), end, b""])

    def _around(self) -> tuple[str, str]:
        """What stands before and after the value."""
        key = self.entry.key
        if key is None:
            return "", ""
        match self.form:
            case Form.KEYWORDS if is_keyword_name(key):
                return f"{key}=", ""
            case Form.KEYWORDS:
                return f"**{{{literal_text(key)}: ", "}"
            case Form.PAIRS:
                return f"({literal_text(key)}, ", ")"
            case _:
                return f"{literal_text(key)}: ", ""
