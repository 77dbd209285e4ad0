"""What a module's tables hold and what its code names, so that two versions can be compared."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from builder.graft.classes import dotted
from builder.graft.syntax import running_children, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.graft.imports import ModuleName

_PARTS: Final = re.compile(r"[.:/]")
_NO_NAME: Final = 200
"""A text of so many characters names nothing."""

_DEFINITION = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a table, or a member of a list when `key` is None.

    `table` is written as a manifest names it: `_TABLES["text"]`. `value` is the value's text,
    `names` the bare names in it, and `words` all names and texts of key and value, with the parts
    of dotted ones. `toml` is the value as [[image.register]] takes it; empty if it does not.
    """

    table: str
    key: str | None
    value: str
    line: int
    words: frozenset[str]
    names: frozenset[str]
    toml: str

    @property
    def text(self) -> str:
        """The entry as a person reads it."""
        return self.value if self.key is None else f"{self.key}: {self.value}"


@dataclass(frozen=True, slots=True)
class Mentions:
    """The tables of a module, and by function or class the texts in its code, with the line."""

    entries: tuple[Entry, ...]
    code: Mapping[str, Mapping[str, int]]


def mentions_of(tree: ast.Module, _: ModuleName) -> Mentions:
    """Everything that a module mentions; docstrings, imports and `__all__` aside."""
    entries: list[Entry] = []
    code: dict[str, dict[str, int]] = {}
    for place, statement in _statements(tree, ""):
        named = _table(statement)
        if named is not None:
            prefix = f"{place}." if place else ""
            entries.extend(_entries(named[1], f"{prefix}{named[0]}"))
        else:
            found = code.setdefault(place, {})
            for text, line in _texts(statement):
                found.setdefault(text, line)
    return Mentions(tuple(entries), code)


def _statements(node: ast.AST, place: str) -> Iterator[tuple[str, ast.AST]]:
    """Each statement of a scope by its function or class; those that hold others are entered."""
    for child in running_children(node):
        if isinstance(child, _DEFINITION):
            inner = f"{place}.{child.name}" if place else child.name
            yield from ((inner, item) for item in child.decorator_list)
            if isinstance(child, ast.ClassDef):
                yield from ((inner, item) for item in (*child.bases, *child.keywords))
            yield from _statements(ast.Module(child.body, []), inner)
        elif isinstance(child, ast.If | ast.Try | ast.TryStar | ast.With | ast.For | ast.While):
            yield from _statements(child, place)
        elif not (isinstance(child, ast.Import | ast.ImportFrom) or _is_all(child)):
            yield place, child


def _is_all(statement: ast.AST) -> bool:
    """Whether a statement makes `__all__`, which decides star imports and nothing else."""
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id="__all__")])
            | ast.AnnAssign(target=ast.Name(id="__all__"))
            | ast.AugAssign(target=ast.Name(id="__all__"))
        ):
            return True
        case _:
            return False


def _table(statement: ast.AST) -> tuple[str, ast.expr] | None:
    """The name and value of an assignment of a table; also of one entry to a table."""
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ) if _is_table(value):
            return name, value
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
            return name, ast.copy_location(ast.Dict([key], [value]), statement)
        case _:
            return None


def _is_table(value: ast.expr) -> bool:
    match value:
        case ast.Dict() | ast.List() | ast.Set() | ast.Tuple() | ast.Subscript():
            return True
        case ast.Call(args=args, keywords=keywords):
            return bool(keywords) or any(map(_is_table, args))
        case _:
            return False


def _entries(node: ast.expr, table: str) -> Iterator[Entry]:
    """The entries of a table and of those inside it."""
    match node:
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield from () if key is None else _keyed(table, key, value)
        case ast.List(elts=items) | ast.Set(elts=items) | ast.Tuple(elts=items):
            for at, item in enumerate(items):
                yield from _member(table, at, item)
        case ast.Subscript(slice=ast.Tuple(elts=items)):  # Literal["a", "b"]: no list to add to
            yield from (replace(_entry(table, None, item), toml="") for item in items)
        case ast.Call():
            yield from _of_call(node, table)
        case _:
            pass


def _of_call(call: ast.Call, table: str) -> Iterator[Entry]:
    for keyword in call.keywords:
        key = ast.copy_location(ast.Constant(keyword.arg or "**"), keyword)
        yield from _keyed(table, key, keyword.value)
    for arg in call.args:
        yield from _entries(arg, table)


def _keyed(table: str, key: ast.expr, value: ast.expr) -> Iterator[Entry]:
    yield _entry(table, key, value)
    if isinstance(value, ast.Dict | ast.List | ast.Set | ast.Call):
        yield from _entries(value, f"{table}[{ast.unparse(key).replace(chr(39), chr(34))}]")


def _member(table: str, at: int, item: ast.expr) -> Iterator[Entry]:
    match item:
        case ast.Tuple(elts=[ast.Constant(value=str()) as key, value]):
            yield _entry(table, key, value)
        case ast.Dict() | ast.List() | ast.Set():
            yield from _entries(item, f"{table}[{at}]")
        case _:
            yield _entry(table, None, item)


def _entry(table: str, key: ast.expr | None, value: ast.expr) -> Entry:
    parts = [value] if key is None else [key, value]
    shallow = isinstance(value, ast.Dict | ast.List | ast.Set | ast.Call)
    counted = parts if not shallow else parts[:-1]
    words = frozenset(word for part in counted for word in _words(part))
    names = frozenset(
        dotted(item) for item in walk(value) if isinstance(item, ast.Name | ast.Attribute)
    )
    text = key.value if isinstance(key, ast.Constant) else key and ast.unparse(key)
    return Entry(
        table,
        None if text is None else str(text),
        ast.unparse(value),
        value.lineno,
        words,
        names - {""},
        _toml(value) or "",
    )


def _words(node: ast.AST) -> Iterator[str]:
    """Each name and text below a node, and the parts of a dotted one."""
    for text, _ in _texts(node):
        yield text
        yield from _PARTS.split(text)
    for item in walk(node):
        match item:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case _:
                pass


def _texts(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Each short text below a node, with its line."""
    for item in walk(node):
        match item:
            case ast.Constant(value=str(text)) if len(text) < _NO_NAME:
                yield text, item.lineno
            case _:
                pass


def _toml(value: ast.expr) -> str | None:
    """A value as TOML, of the kinds that an entry of [[image.register]] can have."""
    match value:
        case ast.Constant(value=str(text)) if text.isprintable() and not {'"', "\\"} & {*text}:
            return f'"{text}"'
        case ast.Name() | ast.Attribute() if dotted(value):
            return f'{{ name = "{dotted(value)}" }}'
        case ast.Tuple(elts=items) | ast.List(elts=items) if items:
            parts = [None if isinstance(i, ast.Tuple | ast.List) else _toml(i) for i in items]
            return f"[{', '.join(map(str, parts))}]" if all(parts) else None
        case _:
            return None
