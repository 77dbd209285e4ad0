"""What a module provides to those who import it, read from its syntax tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.graft.syntax import bindings, module_scope, statements
from builder.graft.tables import dict_literals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from builder.graft.imports import ModuleName

_OF_EVERY_MODULE = frozenset(
    {"__name__", "__file__", "__doc__", "__path__", "__spec__", "__package__", "__loader__"}
)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a module.

    `bound` are bound by importing it, `served` by its own `__getattr__`, `stars` the absolute
    modules that it imports everything from. `public` is its `__all__`; None if it has none, or
    one that is computed. With `any_name` it can provide whatever it is asked for, as far as its
    text can tell.
    """

    bound: frozenset[str]
    served: frozenset[str] = frozenset()
    stars: tuple[str, ...] = ()
    public: frozenset[str] | None = None
    any_name: bool = False


def names_of(tree: ast.Module, name: ModuleName) -> Names:
    """The names of a module by its tree."""
    scope = tuple(module_scope(tree))
    served = _served(tree, scope)
    return Names(
        bound=frozenset(bound for bound, _ in bindings(tree)) | _globals(tree) | _OF_EVERY_MODULE,
        served=served or frozenset(),
        stars=tuple(
            name.absolute(node.module or "", node.level)
            for node in scope
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        ),
        public=_public(scope),
        any_name=served is None or any(_writes_globals(node) for node in scope),
    )


def _globals(tree: ast.Module) -> frozenset[str]:
    """Names that functions bind in the module's scope."""
    return frozenset(
        name for node in statements(tree) if isinstance(node, ast.Global) for name in node.names
    )


def _writes_globals(node: ast.AST) -> bool:
    """Whether a node gets hold of the module's namespace as data, so may bind anything."""
    match node:
        case ast.Call(func=ast.Name(id="globals" | "locals" | "vars" | "exec")):
            return True
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="sys"), attr="modules"),
            slice=ast.Name(id="__name__"),
        ):
            return True
        case _:
            return False


def _public(scope: Iterable[ast.AST]) -> frozenset[str] | None:
    """The names of `__all__`, added up; None if there is none or a part is not a literal."""
    names: set[str] | None = None
    for node in scope:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                names = _strings(value)
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                more = _strings(value)
                names = None if names is None or more is None else names | more
            case ast.Attribute(value=ast.Name(id="__all__")):  # .extend and .append
                return None
            case _:
                pass
    return None if names is None else frozenset(names)


def _strings(value: ast.expr) -> set[str] | None:
    """The strings of a list, tuple, set or dict literal; None if it holds anything else."""
    items: Sequence[ast.expr | None]
    match value:
        case (
            ast.List(elts=items)
            | ast.Tuple(elts=items)
            | ast.Set(elts=items)
            | ast.Dict(keys=items)
        ):
            pass
        case _:
            return None
    found = [item.value for item in items if isinstance(item, ast.Constant)]
    strings = [item for item in found if isinstance(item, str)]
    return set(strings) if len(strings) == len(items) else None


def _served(tree: ast.Module, scope: Iterable[ast.AST]) -> frozenset[str] | None:
    """The names that the module's `__getattr__` answers to; None if it could be any.

    Lazy modules look the name up in a table of the module and raise otherwise (PEP 562), so the
    table tells which names there are. Any other shape of the function could serve every name.
    """
    tables = _closed_tables(tree, scope)
    served: frozenset[str] | None = frozenset()
    for node in scope:
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__" and node.args.args:
            served = None
            if _ends_in_raise(node.body):
                served = _answers(node.body, node.args.args[0].arg, tables)
    return served


def _ends_in_raise(body: list[ast.stmt]) -> bool:
    """Whether what no test of a body takes is refused, rather than answered with None."""
    match body:
        case [*_, ast.Raise()]:
            return True
        case [*_, ast.If(orelse=orelse)]:
            return _ends_in_raise(orelse)
        case _:
            return False


def _closed_tables(tree: ast.Module, scope: Iterable[ast.AST]) -> dict[str, frozenset[str]]:
    """The keys of each dict literal that has nothing but string keys and is not changed later."""
    changed = {
        node.value.id
        for node in scope
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.value, ast.Name)
    }
    keys = {name: _strings(table) for name, table in dict_literals(tree).items()}
    return {
        name: frozenset(found)
        for name, found in keys.items()
        if found is not None and name not in changed
    }


def _answers(
    body: list[ast.stmt], asked: str, tables: dict[str, frozenset[str]]
) -> frozenset[str] | None:
    """The names for which a body returns, if every way to return tests the name first."""
    found: frozenset[str] = frozenset()
    for statement in body:
        match statement:
            case ast.If(test=test, orelse=orelse):
                tested = _tested(test, asked, tables)
                others = _answers(orelse, asked, tables)
                if tested is None or others is None:
                    return None
                found |= tested | others
            case ast.Expr() | ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Global():
                pass
            case _:
                return None
    return found


def _tested(test: ast.expr, asked: str, tables: dict[str, frozenset[str]]) -> frozenset[str] | None:
    """The names for which a test of the asked name is true; None if that cannot be told."""
    match test:
        case ast.Compare(left=ast.Name(id=left), ops=[op], comparators=[right]) if left == asked:
            pass
        case _:
            return None
    match op, right:
        case ast.Eq(), ast.Constant(value=str(name)):
            return frozenset({name})
        case ast.In(), ast.Name(id=table) if table in tables:
            return tables[table]
        case ast.In(), ast.Call(func=ast.Name(id="globals")):
            return frozenset()  # bound already
        case ast.In(), _:
            names = _strings(right)
            return None if names is None else frozenset(names)
        case _:
            return None
