"""What a module does to a table after it was written out: entries may not be there at run time."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from builder.graft.syntax import module_scope, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_EMPTY: Final = frozenset({"clear", "popitem"})
_CHANGE: Final = frozenset(
    {"pop", "update", "setdefault", "remove", "discard", "difference_update", "__delitem__"}
)


def changed_later(
    body: list[ast.stmt], variable: str, wanted: Collection[str], *, set_plainly: bool
) -> Iterator[ast.expr | ast.stmt]:
    """What takes one of the wanted entries out of a table, or sets it, when the module runs.

    `body` is where the variable is assigned. With `set_plainly`, statements such as
    `TABLE["key"] = value` of that body are not given: their values are known. What functions do
    when they are called later is not.
    """
    known = [node for node in body if set_plainly and isinstance(node, ast.Assign)]
    plain = {id(target) for node in known for target in node.targets}
    for node in module_scope(ast.Module(body, [])):
        match node:
            case ast.Name(id=name, ctx=ast.Del()) if name == variable:
                yield node
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del(), slice=key):
                if name == variable and id(node) not in plain and _says(key, wanted):
                    yield node
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=does)):
                if name == variable and (does in _EMPTY or _changes(node, does, wanted)):
                    yield node
            case _:
                pass


def _changes(call: ast.Call, does: str, wanted: Collection[str]) -> bool:
    return does in _CHANGE and any(_says(part, wanted) for part in (*call.args, *call.keywords))


def _says(part: ast.AST, wanted: Collection[str]) -> bool:
    """Whether an expression or keyword names one of the wanted entries."""
    for node in walk(part):
        match node:
            case ast.Constant(value=str(text)) | ast.keyword(arg=str(text)) if text in wanted:
                return True
            case _:
                pass
    return False
