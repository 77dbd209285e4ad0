"""The one table that a manifest names, found in a module with all that it holds."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.graft.syntax import bindings
from builder.graft.table_errors import (
    TableAssignedTwiceError,
    TableNotFoundError,
    TableNotLiteralError,
)
from builder.graft.table_forms import (
    NotATableError,
    TableName,
    child_at,
    inside_of,
    is_display,
    items_of,
    members_of,
    table_of,
)
from builder.graft.table_later import changed_later

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from builder.graft.table_forms import Table


@dataclass(frozen=True, slots=True)
class Found:
    """A table of a module: where its entries go, and what it holds already.

    `items` are those with keys, `members` those without; of the two only one is filled. `inside`
    are the names of tables that stand inside of it. `body` is where `name` is assigned.
    """

    place: str
    name: str
    table: Table
    items: Mapping[str, ast.expr]
    members: tuple[ast.expr, ...]
    inside: tuple[str, ...]
    body: list[ast.stmt]

    def changed_later(self, wanted: Collection[str]) -> Iterator[ast.expr | ast.stmt]:
        """What the module does later to the wanted entries, whose values are not known then."""
        parts = TableName.parse(self.name)
        outer = {str(key) for key in parts.keys[:1]}
        return changed_later(
            self.body, parts.name, outer or wanted, set_plainly=self.table.form.keyed and not outer
        )

    @property
    def values(self) -> tuple[ast.expr, ...]:
        """All values that the table holds."""
        return (*self.items.values(), *self.members)

    @property
    def sample(self) -> tuple[int, str]:
        """The line and text of the first entry, of a table that has one."""
        for key, value in self.items.items():
            return value.lineno, f"{key!r}: {ast.unparse(value)}"
        return self.members[0].lineno, ast.unparse(self.members[0])


def find_table(module: ast.Module, name: str, place: str, *, keyed: bool) -> Found:
    """The table of a name such as `_MODELS` or `_TABLES["text"]`, for entries with or without keys.

    `place` is the module as an error names it. Raises TableNotFoundError, TableAssignedTwiceError
    or TableNotLiteralError.
    """
    parts = TableName.parse(name)
    body, within = _class_body(module, parts.classes, place, name)
    others = dict(_assigned(module.body))
    node = _value(body, parts.name, place, name, within)
    node = _at(node, parts.keys, place, name)
    try:
        table = table_of(node, keyed=keyed)
    except NotATableError as error:
        near = [f"{name}{item}" for item in error.inside] or sorted(_table_names(body, within))
        raise TableNotLiteralError(
            place, name, node.lineno, error.found, near, keyed=keyed
        ) from error
    items = dict(items_of(node, others)) if keyed else {}
    if keyed and not parts.keys:
        items |= dict(_set_later(body, parts.name))
    members = () if keyed else tuple(members_of(node, others))
    inside = tuple(f"{name}{item}" for item in inside_of(node))
    return Found(place, name, table, items, members, inside, body)


def _class_body(
    module: ast.Module, classes: tuple[str, ...], place: str, name: str
) -> tuple[list[ast.stmt], str]:
    """The statements among which the table is assigned, and the classes' names with a dot."""
    body, within = module.body, ""
    for wanted in classes:
        lines = [line for bound, line in bindings(ast.Module(body, [])) if bound == wanted]
        inner = [node for node in body if isinstance(node, ast.ClassDef) and node.name == wanted]
        if len(lines) > 1:
            raise TableAssignedTwiceError(place, f"{within}{wanted}", lines)
        if not inner:
            raise TableNotFoundError(place, name, sorted(_table_names(module.body, "")))
        body, within = inner[0].body, f"{within}{wanted}."
    return body, within


def _value(body: list[ast.stmt], variable: str, place: str, name: str, within: str) -> ast.expr:
    """The expression that is assigned to a variable, once and plainly."""
    lines = [line for bound, line in bindings(ast.Module(body, [])) if bound == variable]
    names = sorted(_table_names(body, within))
    if not lines:
        raise TableNotFoundError(place, name, names)
    if len(lines) > 1:
        raise TableAssignedTwiceError(place, name, lines)
    for target, value in _assigned(body):
        if target == variable:
            return value
    found = _what(body, variable)
    raise TableNotLiteralError(place, name, lines[0], found, names, keyed=True)


def _what(body: list[ast.stmt], variable: str) -> str:
    """What a name is bound to, if it is not to a value by itself."""
    for statement in body:
        bound = dict(bindings(ast.Module([statement], [])))
        if variable in bound and isinstance(statement, ast.Assign | ast.AnnAssign):
            return "one of several names that are assigned together"
    return "bound inside another statement, or by a def, class or import"


def _at(node: ast.expr, keys: tuple[str | int, ...], place: str, name: str) -> ast.expr:
    """The expression below keys and positions of another one."""
    for number, key in enumerate(keys):
        child = child_at(node, key)
        if child is None:
            parent = TableName.parse(name)
            above = ".".join([*parent.classes, parent.name])
            above += "".join(map(_subscript, keys[:number]))
            raise TableNotFoundError(place, name, [f"{above}{item}" for item in inside_of(node)])
        node = child
    return node


def _subscript(key: str | int) -> str:
    return f"[{key}]" if isinstance(key, int) else f'["{key}"]'


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Each plain name with the expression that is assigned to it."""
    for statement in body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                yield from ((item.id, value) for item in targets if isinstance(item, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                pass


def _set_later(body: list[ast.stmt], variable: str) -> Iterator[tuple[str, ast.expr]]:
    """The entries that statements of their own set: `TABLE["key"] = value`."""
    for statement in body:
        match statement:
            case ast.Assign(
                targets=[
                    ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)))
                ],
                value=value,
            ) if name == variable:
                yield key, value
            case _:
                pass


def _table_names(body: list[ast.stmt], within: str) -> Iterator[str]:
    """The names of all tables in a body of statements, those in its classes included."""
    for name, value in _assigned(body):
        if is_display(value) or (isinstance(value, ast.Call) and _takes_entries(value)):
            yield f"{within}{name}"
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _table_names(statement.body, f"{within}{statement.name}.")


def _takes_entries(call: ast.Call) -> bool:
    return bool(call.keywords) or bool(inside_of(call))
