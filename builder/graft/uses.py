"""What a module takes from classes and modules: attributes of self, of super() and of names."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from builder.graft.classes import dotted
from builder.graft.signatures import Call
from builder.graft.syntax import running_children, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.graft.imports import ModuleName

_CATCHES_ABSENCE: Final = frozenset(
    {"AttributeError", "TypeError", "ImportError", "Exception", "BaseException"}
)


@dataclass(frozen=True, slots=True)
class Use:
    """One place that needs something: `self.NAME`, `super().NAME`, or a dotted NAME.

    `owner` is the class around it, empty outside of classes; `function` the method or function.
    `call` holds the arguments if it is called there.
    """

    line: int
    owner: str
    function: str
    via: Literal["self", "super", "name"]
    name: str
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where the walk stands; `local` are names that the functions around bind themselves."""

    owner: str = ""
    function: str = ""
    this: str = ""
    local: frozenset[str] = frozenset()


def uses_of(tree: ast.Module, _: ModuleName) -> tuple[Use, ...]:
    """Every use of a module's text that must work, in order.

    Left out is what may fail (under a `try` that takes the error), and attributes whose presence
    the module tests itself by `hasattr` or `getattr`.
    """
    tested = _tested(tree)
    return tuple(use for use in _uses(tree, _Scope()) if use.name.rpartition(".")[2] not in tested)


def _tested(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="hasattr" | "getattr"), args=[_, ast.Constant(value=str(name)), *_]
            ):
                found.add(name)
            case _:
                pass
    return found


def _uses(node: ast.AST, scope: _Scope) -> Iterator[Use]:
    match node:
        case ast.Call(func=called):
            yield from _used(called, scope, Call.of(node))
            for child in (*node.args, *node.keywords):
                yield from _uses(child, scope)
        case ast.Attribute() | ast.Name():
            yield from _used(node, scope, None)
        case _:
            yield from _below(node, scope)


def _used(node: ast.expr, scope: _Scope, call: Call | None) -> Iterator[Use]:
    """The use that an expression is, else those inside it."""
    found = _use(node, scope, call)
    if found is not None:
        yield found
    elif isinstance(node, ast.Attribute):
        yield from _uses(node.value, scope)
    elif not isinstance(node, ast.Name):
        yield from _uses(node, scope)


def _below(node: ast.AST, scope: _Scope) -> Iterator[Use]:
    """The uses in the parts of a node; those of a body have a scope of their own."""
    inside, within = scope, frozenset[int]()
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        inside, within = _inside(node, scope), frozenset(map(id, node.body))
    elif isinstance(
        node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ):
        scope = _inside(node, scope)
    for child in _running(node):
        yield from _uses(child, inside if id(child) in within else scope)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """The children that run and must not fail; annotations are not run."""
    for child in running_children(node):
        skipped = (
            (isinstance(node, ast.Try | ast.TryStar) and child in node.body and _tolerant(node))
            or (isinstance(node, ast.arg) and child is node.annotation)
            or (isinstance(node, ast.AnnAssign) and child is node.annotation)
            or (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and child is node.returns)
        )
        if not skipped:
            yield child


def _tolerant(node: ast.Try | ast.TryStar) -> bool:
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = (dotted(kind).rpartition(".")[2] for kind in kinds if kind is not None)
        if handler.type is None or any(name in _CATCHES_ABSENCE for name in names):
            return True
    return False


def _use(node: ast.expr, scope: _Scope, call: Call | None) -> Use | None:
    """The use that an expression is; None if it is of no kind that can be followed."""

    def use(via: Literal["self", "super", "name"], name: str) -> Use:
        return Use(node.lineno, scope.owner, scope.function, via, name, call)

    match node:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=attr):
            return use("super", attr) if scope.this else None
        case ast.Attribute(value=ast.Name(id=this), attr=attr, ctx=ast.Load()) if (
            this == scope.this and this
        ):
            return use("self", attr)
        case ast.Attribute() | ast.Name():
            name = dotted(node) if isinstance(node.ctx, ast.Load) else ""
            head = name.partition(".")[0]
            return use("name", name) if name and head not in scope.local else None
        case _:
            return None


def _inside(node: ast.AST, scope: _Scope) -> _Scope:
    """The scope of what stands in a class, a function or the like."""
    match node:
        case ast.ClassDef(name=name):
            if scope.function:  # a class inside a function has no name to be found by
                return _Scope("", f"{scope.function}.{name}", "", scope.local)
            owner = f"{scope.owner}.{name}" if scope.owner else name
            return _Scope(owner, "", "", scope.local)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _function(node, scope)
        case ast.Lambda():
            bound = _parameters(node.args)
        case _:
            bound = _bound(node)[0]
    this = "" if scope.this in bound else scope.this
    return _Scope(scope.owner, scope.function, this, scope.local | bound)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: _Scope) -> _Scope:
    parameters = _parameters(node.args)
    bound, of_module = _bound(node)
    local = scope.local | parameters | (bound - of_module)
    if scope.function:  # a function inside a function: its self is the outer one's
        this = "" if scope.this in parameters else scope.this
        return _Scope(scope.owner, scope.function, this, local)
    is_static = any(dotted(item) == "staticmethod" for item in node.decorator_list)
    first = [*node.args.posonlyargs, *node.args.args][:1]
    this = first[0].arg if first and scope.owner and not is_static else ""
    return _Scope(scope.owner, node.name, this, local)


def _parameters(arguments: ast.arguments) -> frozenset[str]:
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    found += [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    return frozenset(item.arg for item in found)


def _bound(node: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a text binds, its inner functions and classes included, and its globals."""
    found: set[str] = set()
    of_module: set[str] = set()
    for item in walk(node):
        match item:
            case ast.Name(id=name):
                if not isinstance(item.ctx, ast.Load):
                    found.add(name)
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ) if item is not node:
                found.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                found.update(alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.ExceptHandler(name=str(name)):
                found.add(name)
            case ast.Global(names=names):
                of_module.update(names)
            case _:
                pass
    return frozenset(found), frozenset(of_module)
