"""Entries added to a dict literal of a module, by syntax tree; every other byte stays."""

from __future__ import annotations

import ast
import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from builder.graft.insertion import with_entries
from builder.graft.syntax import SourceError, bindings, parse_source
from builder.graft.table_errors import (
    ModuleUnreadableError,
    TableAssignedTwiceError,
    TableConflictError,
    TableNotFoundError,
    TableNotLiteralError,
    TableNotProvenError,
    TableShapeError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry; `present` means that the table had exactly it before."""

    key: str
    value: tuple[str, str]
    state: Literal["added", "present"]


@dataclass(frozen=True, slots=True)
class TableEdit:
    """A module after the edit, and what became of each entry, in the order asked."""

    after: bytes
    entries: tuple[TableEntry, ...]


def edit_table(
    source: bytes, entries: Mapping[str, tuple[str, str]], *, table: str, place: str
) -> TableEdit:
    """The module with the entries in its table; the same bytes if all are present already.

    `place` is the module as an error names it: `base: /usr/lib/.../registry.py`. The result is
    proven: its syntax tree is that of the source with the entries appended, and nothing else.
    Raises ModuleUnreadableError, TableNotFoundError, TableAssignedTwiceError,
    TableNotLiteralError, TableShapeError, TableConflictError or TableNotProvenError.
    """
    module = _parsed(source, place)
    literal = _find(module, table, place)
    known = table_items(module, literal)
    _refuse_other_shapes(known, table, place)
    _refuse_conflicts(known, entries, table, place)
    missing = [(key, value) for key, value in entries.items() if key not in known]
    after = source
    if missing:
        mark = codecs.BOM_UTF8 if source.startswith(codecs.BOM_UTF8) else b""
        after = mark + with_entries(source.removeprefix(mark), literal, missing)
        literal.keys.extend(ast.Constant(key) for key, _ in missing)
        literal.values.extend(_pair(value) for _, value in missing)
        if not _is_written_as(after, module):
            raise TableNotProvenError(place, table)
    added = {key for key, _ in missing}
    return TableEdit(
        after,
        tuple(
            TableEntry(key, value, "added" if key in added else "present")
            for key, value in entries.items()
        ),
    )


def dict_literals(module: ast.Module) -> dict[str, ast.Dict]:
    """The dict literals assigned to names at module level, plainly or with an annotation."""
    found: dict[str, ast.Dict] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            value = statement.value
            if isinstance(value, ast.Dict):
                found.update((name, value) for name in _plain_targets(statement))
    return found


def table_items(module: ast.Module, table: ast.Dict) -> dict[str, ast.expr]:
    """The items of a table with string keys, those of `**OTHER` tables of the module included.

    Later items win, as they do at run time. What other expressions unpack stays unknown.
    """
    return _items(table, dict_literals(module), frozenset())


def own_items(table: ast.Dict) -> dict[str, ast.expr]:
    """The items of a table that are written in it with a string key."""
    return _items(table, {}, frozenset())


def as_pair(value: ast.expr) -> tuple[str, str] | None:
    """The value as (module, class) if it is written as a tuple of two strings, else None."""
    match value:
        case ast.Tuple(elts=[ast.Constant(value=str(module)), ast.Constant(value=str(name))]):
            return (module, name)
        case _:
            return None


def _items(
    table: ast.Dict, others: Mapping[str, ast.Dict], inside: frozenset[str]
) -> dict[str, ast.expr]:
    items: dict[str, ast.expr] = {}
    for key, value in zip(table.keys, table.values, strict=True):
        match key, value:
            case ast.Constant(value=str(text)), _:
                items[text] = value
            case None, ast.Name(id=name) if name in others and name not in inside:
                items.update(_items(others[name], others, inside | {name}))
            case _:
                pass
    return items


def _parsed(source: bytes, place: str) -> ast.Module:
    try:
        return parse_source(source)
    except SourceError as error:
        raise ModuleUnreadableError(place, error.line, error.reason) from error


def _find(module: ast.Module, table: str, place: str) -> ast.Dict:
    literals = dict_literals(module)
    lines = [line for name, line in bindings(module) if name == table]
    names = sorted(literals)
    if not lines:
        raise TableNotFoundError(place, table, names)
    if len(lines) > 1:
        raise TableAssignedTwiceError(place, table, lines)
    if table not in literals:
        raise TableNotLiteralError(place, table, lines[0], _what(module, table), names)
    return literals[table]


def _what(module: ast.Module, table: str) -> str:
    """What a name is bound to, if it is not to a dict literal at module level."""
    for statement in module.body:
        bound = dict(bindings(ast.Module([statement], [])))
        if table in bound and isinstance(statement, ast.Assign | ast.AnnAssign):
            match statement.value:
                case ast.Call(func=function):
                    return f"a call of {ast.unparse(function)}"
                case value:
                    return f"a {type(value).__name__} expression"
    return "bound inside another statement, or by a def, class or import"


def _plain_targets(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _refuse_other_shapes(known: Mapping[str, ast.expr], table: str, place: str) -> None:
    """Refuse a table that has values and none of them is (module, class).

    vLLM keeps such tables beside the registry, as that of versions which last had a model;
    an entry written there would register nothing, without any error.
    """
    if known and not any(as_pair(value) for value in known.values()):
        key, value = next(iter(known.items()))
        raise TableShapeError(place, table, value.lineno, f"{key!r}: {ast.unparse(value)}")


def _refuse_conflicts(
    known: Mapping[str, ast.expr], entries: Mapping[str, tuple[str, str]], table: str, place: str
) -> None:
    conflicts = [
        (key, known[key].lineno, value, ast.unparse(known[key]))
        for key, value in entries.items()
        if key in known and as_pair(known[key]) != value
    ]
    if conflicts:
        raise TableConflictError(place, table, conflicts)


def _pair(value: tuple[str, str]) -> ast.Tuple:
    return ast.Tuple([ast.Constant(part) for part in value], ast.Load())


def _is_written_as(source: bytes, module: ast.Module) -> bool:
    """Whether the source parses to the same tree, places and comments aside."""
    try:
        return ast.dump(parse_source(source)) == ast.dump(module)
    except SourceError:
        return False
