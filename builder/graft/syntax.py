"""Python source as syntax trees, and what of it runs when a module is imported."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OWN_SCOPE = (
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.Lambda
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
)

MAX_SOURCE_BYTES: Final = 2 * 2**20
TOO_DEEP: Final = "an expression or statement is nested too deeply"


class SourceError(ValueError):
    """The bytes are not Python source in UTF-8; `reason` says why, `line` where (0 if unknown)."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse_source(source: bytes) -> ast.Module:
    """The syntax tree of a module; SourceError if it is not UTF-8 or not this Python's syntax.

    A byte order mark and a coding line are fine as long as they say UTF-8. No source of more than
    MAX_SOURCE_BYTES is parsed: its tree takes a hundred times its size.
    """
    if len(source) > MAX_SOURCE_BYTES:
        reason = f"{len(source)} bytes, and {MAX_SOURCE_BYTES} are the most"
        raise SourceError(reason)
    reason, line = "", 0
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode("utf-8-sig")
        if encoding.startswith("utf-8") and "\0" not in text:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an invalid escape is the author's business
                return ast.parse(text)
        reason = "a null byte" if "\0" in text else f"{encoding} by its coding line, not UTF-8"
    except UnicodeDecodeError as error:
        reason, line = "bytes that are not UTF-8", source.count(b"\n", 0, error.start) + 1
    except SyntaxError as error:
        reason, line = error.msg, error.lineno or 0
    except (RecursionError, MemoryError):  # the parser's stack is a small one
        reason = TOO_DEEP
    raise SourceError(reason, line)


def module_scope(module: ast.Module) -> Iterator[ast.AST]:
    """The nodes that are evaluated in the module's own scope when it is imported, in order.

    Functions, classes, lambdas and comprehensions are given but not entered. What stands under
    `if TYPE_CHECKING:` never runs, so it is left out.
    """
    for statement in module.body:
        yield from _walk(statement)


def bindings(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that importing the module binds, with its line, in order; star imports aside."""
    for node in module_scope(module):
        if isinstance(node, ast.stmt | ast.expr | ast.pattern):
            yield from ((name, node.lineno) for name in _bound(node))


def only_branch(statement: ast.If) -> list[ast.stmt] | None:
    """The branch of an `if` that runs, when a type checker reads the other one; else None."""
    match statement.test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return statement.orelse
        case ast.UnaryOp(
            op=ast.Not(),
            operand=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"),
        ):
            return statement.body
        case _:
            return None


def running_children(node: ast.AST) -> Iterable[ast.AST]:
    """The children of a node that are evaluated when the program runs."""
    match node:
        case ast.If() if (branch := only_branch(node)) is not None:
            return branch
        case ast.AnnAssign(value=None):
            return ()  # its target is declared, not bound
        case _:
            return ast.iter_child_nodes(node)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, in no order that counts; faster than ast.walk."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        for value in node.__dict__.values():
            if value.__class__ is list:
                todo += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                todo.append(value)


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements in a module or a statement, at any depth, in no order that counts."""
    todo = [node]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            found = getattr(node, part, None)
            if found.__class__ is list:
                todo += found


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, _OWN_SCOPE):
        for child in running_children(node):
            yield from _walk(child)


def _bound(node: ast.AST) -> tuple[str, ...]:
    """The names that one node binds, not counting its children."""
    match node:
        case (
            ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
            | ast.ClassDef(name=name)
            | ast.Name(id=name, ctx=ast.Store())
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            return (name,)
        case ast.Import(names=aliases):
            return tuple(alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case ast.ImportFrom(names=aliases):
            return tuple(alias.asname or alias.name for alias in aliases if alias.name != "*")
        case _:
            return ()
