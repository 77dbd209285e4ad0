"""Entries added to a table of a module, by syntax tree; every other byte stays."""

from __future__ import annotations

import ast
import builtins
import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from builder.graft.entries import (
    Entry,
    Style,
    is_keyword_name,
    plain,
    shape,
    value_node,
    value_text,
)
from builder.graft.insertion import with_entries
from builder.graft.syntax import TOO_DEEP, SourceError, bindings, parse_source
from builder.graft.table_errors import (
    ModuleUnreadableError,
    NameNotBoundError,
    TableChangedLaterError,
    TableConflictError,
    TableNotProvenError,
    TableShapeError,
)
from builder.graft.table_finding import Found, find_table
from builder.graft.table_forms import Form, Table, elements, items_of
from builder.image_section import BareName

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from builder.graft.entries import Value

Entries: TypeAlias = "Mapping[str, Value] | tuple[Value, ...]"
"""The entries asked, by key; or, for a list, without keys."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry; `present` means that the table had exactly it before."""

    key: str | None
    value: Value
    state: Literal["added", "present"]


@dataclass(frozen=True, slots=True)
class TableEdit:
    """A module after the edit, and what became of each entry, in the order asked."""

    after: bytes
    entries: tuple[TableEntry, ...]


def edit_table(source: bytes, entries: Entries, *, table: str, place: str) -> TableEdit:
    """The module with the entries in its table; the same bytes if all are present already.

    `place` is the module as an error names it: `base: /usr/lib/.../registry.py`. The result is
    proven: its syntax tree is that of the source with the entries appended, and nothing else.
    Raises TableError of several kinds (builder/graft/table_errors.py) or ModuleUnreadableError.
    """
    try:
        return _edited(source, entries, table=table, place=place)
    except RecursionError as error:
        raise ModuleUnreadableError(place, 0, TOO_DEEP) from error


def _edited(source: bytes, entries: Entries, *, table: str, place: str) -> TableEdit:
    asked = _as_entries(entries)
    module = _parsed(source, place)
    found = find_table(module, table, place, keyed=isinstance(entries, Mapping))
    style = Style.of(found.values)
    _refuse_other_shapes(found, asked, style)
    _refuse_conflicts(found, asked, style)
    _refuse_later_changes(found, asked)
    missing = [entry for entry in asked if not _is_present(found, entry, style)]
    after = source
    if missing:
        _refuse_unknown_names(module, found, missing)
        mark = codecs.BOM_UTF8 if source.startswith(codecs.BOM_UTF8) else b""
        after = mark + with_entries(source.removeprefix(mark), found.table, missing, style)
        _append(found.table, missing, style)
        if not _is_written_as(after, module):
            raise TableNotProvenError(place, table)
    return TableEdit(
        after,
        tuple(
            TableEntry(entry.key, entry.value, "added" if entry in missing else "present")
            for entry in asked
        ),
    )


def _as_entries(entries: Entries) -> list[Entry]:
    if isinstance(entries, Mapping):
        return [Entry(key, value) for key, value in entries.items()]
    return [Entry(None, value) for value in entries]


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
    return items_of(table, dict_literals(module))


def own_items(table: ast.Dict) -> dict[str, ast.expr]:
    """The items of a table that are written in it with a string key."""
    return items_of(table, {})


def as_pair(value: ast.expr) -> tuple[str, str] | None:
    """The value as (module, class) if it is written as a tuple of two strings, else None."""
    match value:
        case ast.Tuple(elts=[ast.Constant(value=str(module)), ast.Constant(value=str(name))]):
            return (module, name)
        case _:
            return None


def _parsed(source: bytes, place: str) -> ast.Module:
    try:
        return parse_source(source)
    except SourceError as error:
        raise ModuleUnreadableError(place, error.line, error.reason) from error


def _plain_targets(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_present(found: Found, entry: Entry, style: Style) -> bool:
    if entry.key is not None:
        return entry.key in found.items
    wanted = plain(value_node(entry.value, style))
    return any(plain(member) == wanted for member in found.members)


def _refuse_other_shapes(found: Found, asked: Sequence[Entry], style: Style) -> None:
    """Refuse a table that has values, and none of them is of the kind of a value asked.

    vLLM keeps such tables beside the registry, as that of versions which last had a model;
    an entry written there would register nothing, without any error.
    """
    shapes = {shape(value) for value in found.values}
    for entry in asked:
        if shapes and shape(value_node(entry.value, style)) not in shapes:
            wanted = value_text(entry.value, style)
            raise TableShapeError(found.place, found.name, wanted, *found.sample, found.inside)


def _refuse_conflicts(found: Found, asked: Sequence[Entry], style: Style) -> None:
    conflicts = [
        (
            entry.key,
            found.items[entry.key].lineno,
            value_text(entry.value, style),
            ast.unparse(found.items[entry.key]),
        )
        for entry in asked
        if entry.key is not None
        and entry.key in found.items
        and plain(found.items[entry.key]) != plain(value_node(entry.value, style))
    ]
    if conflicts:
        raise TableConflictError(found.place, found.name, conflicts)


def _refuse_later_changes(found: Found, asked: Sequence[Entry]) -> None:
    """Refuse a table whose entries asked the module itself removes or sets again."""
    names = [entry.value if entry.key is None else entry.key for entry in asked]
    for node in found.changed_later({name for name in names if isinstance(name, str)}):
        raise TableChangedLaterError(found.place, found.name, node.lineno, ast.unparse(node))


def _refuse_unknown_names(module: ast.Module, found: Found, missing: Sequence[Entry]) -> None:
    """Refuse a bare name that the module does not bind before the table: its import would fail."""
    names = [name.partition(".")[0] for entry in missing for name in _names_in(entry.value)]
    if not names or _imports_everything(module):
        return
    end = found.table.node.end_lineno
    bound = {name for name, line in bindings(module) if end is None or line <= end}
    for name in names:
        if name not in bound and not hasattr(builtins, name):
            later = next((line for known, line in bindings(module) if known == name), None)
            raise NameNotBoundError(found.place, found.name, name, later, sorted(bound))


def _names_in(value: Value) -> Iterator[str]:
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, BareName):
            yield part.name


def _imports_everything(module: ast.Module) -> bool:
    stars = (
        alias for node in module.body if isinstance(node, ast.ImportFrom) for alias in node.names
    )
    return any(alias.name == "*" for alias in stars)


def _append(table: Table, entries: Sequence[Entry], style: Style) -> None:
    """Append the entries to the table's node, as the parser should find them."""
    for entry in entries:
        value = value_node(entry.value, style)
        key = ast.Constant(entry.key)
        match table.node:
            case ast.Dict(keys=keys, values=values):
                keys.append(key)
                values.append(value)
            case ast.Call(keywords=keywords):
                keywords.append(_keyword(entry.key or "", value))
            case ast.Subscript(slice=one) as node if not isinstance(one, ast.Tuple):
                node.slice = ast.Tuple([one, value], ast.Load())
            case node:
                pair = ast.Tuple([key, value], ast.Load())
                elements(node).append(pair if table.form is Form.PAIRS else value)


def _keyword(key: str, value: ast.expr) -> ast.keyword:
    if is_keyword_name(key):
        return ast.keyword(key, value)
    return ast.keyword(None, ast.Dict([ast.Constant(key)], [value]))


def _is_written_as(source: bytes, module: ast.Module) -> bool:
    """Whether the source parses to the same tree, places and comments aside."""
    try:
        return ast.dump(parse_source(source)) == ast.dump(module)
    except SourceError:
        return False
