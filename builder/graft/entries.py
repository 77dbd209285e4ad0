"""The entries that tables get: as text, as syntax, and compared with what stands there."""

from __future__ import annotations

import ast
import json
import keyword
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from builder.image_section import BareName

if TYPE_CHECKING:
    from collections.abc import Iterable

Part: TypeAlias = str | BareName
Value: TypeAlias = Part | tuple[Part, ...]
"""What an entry holds: text, a name of the module, or several of them."""

Plain: TypeAlias = tuple[object, ...]
"""A value in a form that is equal for equal values, however they are written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry to write; of a list it has no key."""

    key: str | None
    value: Value


@dataclass(frozen=True, slots=True)
class Style:
    """How a table writes a value of several parts: as a tuple, or as a list."""

    lists: bool

    @property
    def opening(self) -> str:
        """The bracket before the parts."""
        return "[" if self.lists else "("

    @property
    def closing(self) -> str:
        """The bracket behind the parts."""
        return "]" if self.lists else ")"

    @classmethod
    def of(cls, values: Iterable[ast.expr]) -> Style:
        """The style of a table with these values: lists if all that have parts are lists."""
        nodes = [node for node in values if isinstance(node, ast.List | ast.Tuple)]
        return cls(bool(nodes) and all(isinstance(node, ast.List) for node in nodes))


def literal_text(text: str) -> str:
    """A Python string literal in double quotes.

    JSON's escapes are Python's too, but for one: in its ASCII form, a character beyond the basic
    plane is two surrogates, which Python would not join.
    """
    return json.dumps(text, ensure_ascii=False)


def value_text(value: Value, style: Style) -> str:
    """The value as it is written on one line."""
    if not isinstance(value, tuple):
        return _part_text(value)
    comma = "," if len(value) == 1 and not style.lists else ""
    return style.opening + ", ".join(value_parts(value)) + comma + style.closing


def value_parts(value: Value) -> tuple[str, ...]:
    """Each part as it is written; none for a value that has no parts."""
    return tuple(map(_part_text, value)) if isinstance(value, tuple) else ()


def _part_text(part: Part) -> str:
    return part.name if isinstance(part, BareName) else literal_text(part)


def is_keyword_name(key: str) -> bool:
    """Whether a key can be written as the keyword of a call.

    Beyond ASCII the parser may change the letters of a name (NFKC), and with them the key.
    """
    return key.isascii() and key.isidentifier() and not keyword.iskeyword(key)


def value_node(value: Value, style: Style) -> ast.expr:
    """The value as the parser gives it."""
    if isinstance(value, tuple):
        nodes: list[ast.expr] = [value_node(part, style) for part in value]
        return ast.List(nodes, ast.Load()) if style.lists else ast.Tuple(nodes, ast.Load())
    if isinstance(value, BareName):
        return ast.parse(value.name, mode="eval").body
    return ast.Constant(value)


def plain(node: ast.expr) -> Plain:
    """The value of an expression, equal for equal values: quotes and parentheses aside."""
    match node:
        case ast.Constant(value=str(text)):
            return ("text", text)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return (type(node).__name__, *map(plain, elts))
        case ast.Name() | ast.Attribute():
            return ("name", ast.unparse(node))
        case _:
            return ("other", ast.dump(node))


def shape(node: ast.expr) -> tuple[object, ...]:
    """The kind of a value; with a tuple's length, since each of its places has a meaning."""
    value = plain(node)
    return (value[0], len(value)) if isinstance(node, ast.Tuple) else (value[0],)
