"""What a module imports, at any depth, with absolute names."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.graft.syntax import only_branch, running_children

if TYPE_CHECKING:
    from collections.abc import Iterator

_CATCHES_IMPORT_ERROR = frozenset(
    {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
)


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement's claim on one module.

    `module` is absolute and dotted; one that leaves its top package begins with dots still.
    `names` are what is taken from it: none for `import module`, `*` for a star import.
    `optional` imports may fail: a condition or an `except ImportError` stands around them.
    """

    line: int
    module: str
    names: tuple[str, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class ModuleName:
    """A module's dotted name, and whether it is a package (`__init__.py`)."""

    dotted: str
    is_package: bool

    @classmethod
    def of(cls, path: str) -> ModuleName:
        """The name of a module by its path below the site folder: `vllm/models/__init__.py`."""
        parts = path.removesuffix(".py").split("/")
        is_package = parts[-1] == "__init__"
        return cls(".".join(parts[:-1] if is_package else parts), is_package)

    def absolute(self, module: str, level: int) -> str:
        """A module named in this one's `from` statement, with `level` leading dots, resolved.

        Source: PEP 328. Dots that lead out of the top package stay.
        """
        if level == 0:
            return module
        parts = self.dotted.split(".")
        up = level - 1 if self.is_package else level
        if up >= len(parts):
            return "." * level + module
        base = ".".join(parts[: len(parts) - up])
        return f"{base}.{module}" if module else base


def imports_of(tree: ast.Module, name: ModuleName) -> tuple[Import, ...]:
    """Every import of a module, those inside functions and classes too, in order.

    What only a type checker reads is left out.
    """
    return tuple(_imports(tree, name, optional=False))


def _imports(node: ast.AST, name: ModuleName, *, optional: bool) -> Iterator[Import]:
    match node:
        case ast.Import(names=aliases):
            for alias in aliases:
                yield Import(node.lineno, alias.name, (), optional)
        case ast.ImportFrom(module=module, names=aliases, level=level):
            absolute = name.absolute(module or "", level)
            names = tuple(alias.name for alias in aliases)
            yield Import(node.lineno, absolute, names, optional)
        case ast.expr():
            pass  # an import is a statement, and no expression holds one
        case _:
            for child in running_children(node):
                yield from _imports(child, name, optional=optional or _may_fail(node, child))


def _may_fail(parent: ast.AST, child: ast.AST) -> bool:
    """Whether a statement stands where an import may fail, or may not run at all."""
    match parent:
        case ast.Try(body=body, handlers=handlers) | ast.TryStar(body=body, handlers=handlers):
            return child in handlers or (child in body and any(map(_catches, handlers)))
        case ast.With(items=items):
            return any(_suppresses(item.context_expr) for item in items)
        case ast.If():
            return only_branch(parent) is None
        case ast.match_case():
            return True
        case _:
            return False


def _catches(handler: ast.excepthandler) -> bool:
    """Whether an `except` clause takes an ImportError."""
    kind = handler.type if isinstance(handler, ast.ExceptHandler) else None
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(kind is None or _last_name(kind) in _CATCHES_IMPORT_ERROR for kind in kinds)


def _suppresses(context: ast.expr) -> bool:
    """Whether a context is `suppress(ImportError)` or the like."""
    match context:
        case ast.Call(func=function, args=args) if _last_name(function) == "suppress":
            return any(_last_name(arg) in _CATCHES_IMPORT_ERROR for arg in args)
        case _:
            return False


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
