"""The classes and functions of a module, as their text states them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from builder.graft.signatures import Signature
from builder.graft.syntax import running_children, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.graft.imports import ModuleName

_KEEPS_SIGNATURE: Final = frozenset(
    {
        *("classmethod", "staticmethod", "final", "override", "deprecated"),
        *("cache", "lru_cache", "wraps", "contextmanager", "asynccontextmanager"),
        *("inference_mode", "no_grad", "compile", "disable"),
    }
)
"""The last names of decorators that leave a function callable as its `def` says."""

_ABSTRACT: Final = frozenset({"abstractmethod", "abstractproperty"})
_PROPERTIES: Final = frozenset({"property", "cached_property", "abstractproperty", "classproperty"})


class Form(Enum):
    """How a member is used."""

    METHOD = "a method"
    CLASS_METHOD = "a class method"
    STATIC_METHOD = "a static method"
    PROPERTY = "a property"
    VALUE = "a value"


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a class, or a function of a module.

    `signature` is that of the `def`; None for values, properties, and what is defined in two
    ways. `decorators` are those that may change it. `bare` tells that a body only declares:
    `...`, its docstring, or a raised NotImplementedError.
    """

    line: int
    form: Form
    signature: Signature | None = None
    is_async: bool = False
    bare: bool = False
    abstract: bool = False
    decorators: frozenset[str] = frozenset()

    @property
    def as_used(self) -> tuple[object, ...]:
        """All that a user of the member can tell: the same for a body that does other things."""
        return self.form, self.signature, self.is_async, self.bare, self.decorators


@dataclass(frozen=True, slots=True)
class Class:
    """A class as written: `bases` are dotted names as in the text, less their `[...]`.

    `set_on_self` are attributes that its methods store on the instance. With `open_ended` it can
    have members that its text does not name, or bases that it computes.
    """

    name: str
    line: int
    bases: tuple[str, ...]
    members: Mapping[str, Member]
    set_on_self: frozenset[str]
    decorators: tuple[str, ...] = ()
    open_ended: bool = False

    def can_replace(self, other: Class) -> bool:
        """Whether nothing that another version of the class has is missing or changed here."""
        same = (self.bases, self.decorators) == (other.bases, other.decorators)
        return (
            same
            and self.set_on_self >= other.set_on_self
            and all(
                name in self.members and self.members[name].as_used == member.as_used
                for name, member in other.members.items()
            )
        )


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a module defines itself; nested classes go by `Outer.Inner`."""

    classes: Mapping[str, Class] = field(default_factory=dict)
    functions: Mapping[str, Member] = field(default_factory=dict)


def definitions_of(tree: ast.Module, _: ModuleName) -> Definitions:
    """The classes and functions that stand in a module's own scope, or in a class there.

    Of one that is defined twice (in both branches of a condition, say) the signature is unknown.
    """
    classes: dict[str, Class] = {}
    functions: dict[str, Member] = {}
    for node in _statements(tree):
        match node:
            case ast.ClassDef():
                classes.update(_classes(node, "", again=node.name in classes))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                member = _function(node, in_class=False)
                if member is not None:
                    _add(functions, node.name, member)
            case _:
                pass
    return Definitions(classes, functions)


def dotted(node: ast.expr) -> str:
    """A name with its attributes as text, `a.b.C`, without what stands in brackets; else empty."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            stem = dotted(value)
            return f"{stem}.{attr}" if stem else ""
        case ast.Subscript(value=value):
            return dotted(value)
        case _:
            return ""


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a scope, those under conditions, `with` and `try` too."""
    for child in running_children(node):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            yield from _statements(child)


def _classes(node: ast.ClassDef, outer: str, *, again: bool) -> Iterator[tuple[str, Class]]:
    """A class and those inside it, by qualified name."""
    name = f"{outer}{node.name}"
    members: dict[str, Member] = {}
    stored: set[str] = set()
    open_ended = again or any(item.arg is None for item in node.keywords)
    for statement in _statements(node):
        if isinstance(statement, ast.ClassDef):
            yield from _classes(statement, f"{name}.", again=False)
            members[statement.name] = Member(statement.lineno, Form.VALUE)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            member = _function(statement, in_class=True)
            if member is not None:
                _add(members, statement.name, member)
            names, others = _effects(statement)
            stored |= names
            open_ended |= others
        else:
            members.update(_values(statement))
    bases = tuple(dotted(base) for base in node.bases)
    decorators = tuple(_called(item) for item in node.decorator_list)
    yield (
        name,
        Class(name, node.lineno, bases, members, frozenset(stored), decorators, open_ended),
    )


def _add(members: dict[str, Member], name: str, member: Member) -> None:
    """Keep a member; two that differ become one whose signature nobody knows."""
    before = members.get(name)
    if before is not None and before.signature != member.signature:
        member = Member(member.line, member.form, None, is_async=member.is_async)
    members[name] = member


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, *, in_class: bool) -> Member | None:
    """The member that a `def` makes; None for an overload, a setter or a deleter."""
    names = {_called(item).rpartition(".")[2] for item in node.decorator_list}
    if names & {"overload", "setter", "deleter"}:
        return None
    form = _form(names, node.name, in_class=in_class)
    is_async = isinstance(node, ast.AsyncFunctionDef)
    bare = all(map(_declares, node.body))
    bound = in_class and form is not Form.STATIC_METHOD
    signature = None if form is Form.PROPERTY else Signature.of(node.args, bound=bound)
    return Member(
        node.lineno,
        form,
        signature,
        is_async=is_async,
        bare=bare,
        abstract=bool(names & _ABSTRACT),
        decorators=frozenset(names - _KEEPS_SIGNATURE - _ABSTRACT - _PROPERTIES),
    )


def _form(decorators: set[str], name: str, *, in_class: bool) -> Form:
    if decorators & _PROPERTIES:
        return Form.PROPERTY
    if "staticmethod" in decorators or not in_class:
        return Form.STATIC_METHOD
    if "classmethod" in decorators or name in ("__init_subclass__", "__class_getitem__"):
        return Form.CLASS_METHOD
    return Form.METHOD


def _declares(statement: ast.stmt) -> bool:
    """Whether a statement of a body does nothing but say that there should be one."""
    match statement:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.expr() as raised):
            return _called(raised) == "NotImplementedError"
        case _:
            return False


def _called(node: ast.expr) -> str:
    return dotted(node.func if isinstance(node, ast.Call) else node)


def _values(statement: ast.stmt) -> Iterator[tuple[str, Member]]:
    """The attributes that a statement of a class's body binds or declares."""
    targets: list[ast.expr] = []
    bare = False
    match statement:
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign():
            targets = [statement.target]
            bare = statement.value is None
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            for alias in names:
                yield alias.asname or alias.name, Member(statement.lineno, Form.VALUE)
        case _:
            pass
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                yield node.id, Member(statement.lineno, Form.VALUE, bare=bare)


_REGISTERS: Final = frozenset(
    {
        "register_buffer",
        "register_parameter",
        "register_module",
        "add_module",
        "__setattr__",
        "setattr",
    }
)


def _effects(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[set[str], bool]:
    """The attributes that a method stores on its first parameter, and whether it may have others.

    Those that it registers by a constant name count; it may have others if it answers to any name,
    or stores attributes whose names it computes.
    """
    this = _first(function)
    stored: set[str] = set()
    open_ended = function.name in ("__getattr__", "__getattribute__")
    for node in walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name == this:
                if isinstance(node.ctx, ast.Store):
                    stored.add(attr)
                open_ended |= attr == "__dict__"
            case ast.Call(func=ast.Name(id="vars"), args=[ast.Name(id=name)]) if name == this:
                open_ended = True
            case (
                ast.Call(func=ast.Name(id="setattr" as called), args=[ast.Name(id=name), key, *_])
                | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=called), args=[key, *_])
            ) if name == this and called in _REGISTERS:
                stored |= _constant(key)
                open_ended |= not _constant(key)
            case _:
                pass
    return stored, open_ended


def _constant(node: ast.expr) -> set[str]:
    """The name that an expression states; none if it is computed."""
    match node:
        case ast.Constant(value=str(name)):
            return {name}
        case _:
            return set()


def _first(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    arguments = [*function.args.posonlyargs, *function.args.args]
    return arguments[0].arg if arguments else ""
