"""What of a module's source is a table, in which form it is written, and what it holds."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Display: TypeAlias = ast.Dict | ast.List | ast.Tuple | ast.Set | ast.Subscript
"""A table that is written out; the subscript is `Literal["a", "b"]`."""

_MAKERS: Final = frozenset(
    [
        "dict",
        "OrderedDict",
        "defaultdict",
        "MappingProxyType",
        "list",
        "tuple",
        "set",
        "frozenset",
        "deque",
    ]
)
"""Calls that give what they are given, so that one inside another call is a table too."""


class Form(Enum):
    """How a table's entries are written."""

    DICT = '{"key": value}'
    KEYWORDS = "call(key=value)"
    PAIRS = '[("key", value)]'
    ITEMS = "[value]"

    @property
    def keyed(self) -> bool:
        """Whether its entries have keys."""
        return self is not Form.ITEMS


@dataclass(frozen=True, slots=True)
class Table:
    """The node that an entry is written into."""

    form: Form
    node: Display | ast.Call

    @property
    def children(self) -> list[ast.expr | ast.keyword]:
        """The node of each entry in the order of the source; of a dict's entries the values."""
        match self.node:
            case ast.Dict(values=values):
                return list(values)
            case ast.Call(args=args, keywords=keywords):
                return sorted([*args, *keywords], key=lambda node: (node.lineno, node.col_offset))
            case node:
                return list(elements(node))

    def first_nodes(self) -> list[tuple[ast.expr | ast.keyword, bool]]:
        """The first node of each entry, and whether `**` stands before it without being part."""
        if isinstance(self.node, ast.Dict):
            pairs = zip(self.node.keys, self.node.values, strict=True)
            return [(value if key is None else key, key is None) for key, value in pairs]
        return [(child, False) for child in self.children]


class NotATableError(Exception):
    """An expression has no one place for entries; `found` says what it is, `inside` where to look.

    `inside` are subscripts of tables inside of it, such as `["text"]`.
    """

    def __init__(self, found: str, inside: tuple[str, ...] = ()) -> None:
        super().__init__(found)
        self.found = found
        self.inside = inside


def table_of(node: ast.expr, *, keyed: bool) -> Table:
    """The table that an expression is, for entries with or without keys.

    A call stands for the one table it is given, `MappingProxyType({...})`, else for its keywords.
    Raises NotATableError.
    """
    match node:
        case ast.Dict():
            return _fitting(Table(Form.DICT, node), keyed=keyed)
        case ast.List() | ast.Tuple() | ast.Set() | ast.Subscript() if is_display(node):
            form = Form.PAIRS if keyed and _are_pairs(elements(node)) else Form.ITEMS
            return _fitting(Table(form, node), keyed=keyed)
        case ast.BinOp(op=ast.BitOr() | ast.Add(), left=left, right=right):
            return _last_table([left, right], node, keyed=keyed)
        case ast.Call():
            return _table_of_call(node, keyed=keyed)
        case _:
            raise NotATableError(what_is(node), inside_of(node))


def _last_table(parts: list[ast.expr], whole: ast.expr, *, keyed: bool) -> Table:
    for part in reversed([part for part in parts if not _makes_something(part)]):
        try:
            return table_of(part, keyed=keyed)
        except NotATableError:
            continue
    raise NotATableError(what_is(whole), inside_of(whole))


def _table_of_call(call: ast.Call, *, keyed: bool) -> Table:
    given = [node for node in call.args if _is_table(node)]
    if len(given) > 1:
        found = f"a call of {ast.unparse(call.func)} with {len(given)} tables"
        raise NotATableError(found, inside_of(call))
    if keyed and _makes_a_dict(call) and len(given) == 1:
        (only,) = given
        if isinstance(only, ast.List | ast.Tuple) and not only.elts:
            return Table(Form.PAIRS, only)
    if given:
        return table_of(given[0], keyed=keyed)
    generated = any(isinstance(node, ast.GeneratorExp) for node in call.args)
    if not keyed or generated or not (call.keywords or _makes_a_dict(call)):
        raise NotATableError(what_is(call), inside_of(call))
    return Table(Form.KEYWORDS, call)


def _makes_a_dict(call: ast.Call) -> bool:
    """Whether a call makes a dict, by its name."""
    return ast.unparse(call.func).partition("[")[0].lower().endswith("dict")


def _fitting(table: Table, *, keyed: bool) -> Table:
    if table.form.keyed != keyed:
        raise NotATableError(what_is(table.node), inside_of(table.node))
    return table


def _makes_something(node: ast.expr) -> bool:
    """Whether an expression inside of a table is a call that may give another thing than it gets.

    The table itself can be any call, since somebody named it a table: `Lazy(a="A")`.
    """
    return isinstance(node, ast.Call) and not (_is_table(node) or _makes_a_dict(node))


def is_display(node: ast.expr) -> bool:
    """Whether an expression is a table that is written out."""
    match node:
        case ast.Dict() | ast.List() | ast.Tuple() | ast.Set():
            return True
        case ast.Subscript(value=ast.Name(id="Literal") | ast.Attribute(attr="Literal")):
            return True
        case _:
            return False


def _is_table(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _MAKERS
        case ast.BinOp(op=ast.BitOr() | ast.Add(), left=left, right=right):
            return _is_table(left) or _is_table(right)
        case _:
            return is_display(node)


def elements(node: ast.expr) -> list[ast.expr]:
    """The elements of a list, tuple, set or Literal[...]; none of other expressions."""
    match node:
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            return elts
        case ast.Subscript(slice=ast.Tuple(elts=elts)):
            return elts
        case ast.Subscript(slice=one):
            return [one]
        case _:
            return []


def _are_pairs(items: list[ast.expr]) -> bool:
    return bool(items) and all(as_item(item) is not None for item in items)


def as_item(node: ast.expr) -> tuple[str, ast.expr] | None:
    """Key and value of `("key", value)`; None for anything else."""
    match node:
        case (
            ast.Tuple(elts=[ast.Constant(value=str(key)), value])
            | ast.List(elts=[ast.Constant(value=str(key)), value])
        ):
            return (key, value)
        case _:
            return None


def what_is(node: ast.expr) -> str:
    """An expression in words."""
    match node:
        case ast.Dict():
            return "a dict, whose entries have keys"
        case ast.List() | ast.Tuple() | ast.Set():
            return f"a {type(node).__name__.lower()}, whose entries have no keys"
        case ast.Subscript() if is_display(node):
            return "a Literal, whose entries have no keys"
        case ast.Call(func=function):
            return f"a call of {ast.unparse(function)}"
        case _:
            return f"a {type(node).__name__} expression"


# --- what stands inside -------------------------------------------------------------------------


def child_at(node: ast.expr, key: str | int) -> ast.expr | None:
    """What `node[key]` is written as: the value of a key or keyword, an element or argument."""
    if isinstance(key, int):
        items = node.args if isinstance(node, ast.Call) else elements(node)
        return items[key] if key < len(items) else None
    return items_of(node, {}).get(key)


def inside_of(node: ast.expr) -> tuple[str, ...]:
    """The subscripts under which tables stand inside an expression."""
    keyed = [(f'["{key}"]', value) for key, value in items_of(node, {}).items()]
    placed = node.args if isinstance(node, ast.Call) else elements(node)
    numbered = [(f"[{number}]", value) for number, value in enumerate(placed)]
    return tuple(place for place, value in [*keyed, *numbered] if _is_table(value))


def items_of(
    node: ast.expr, others: Mapping[str, ast.expr], seen: frozenset[str] = frozenset()
) -> dict[str, ast.expr]:
    """The items with a string key that an expression holds, later ones before earlier ones.

    `others` are the expressions of names, which `**NAME` unpacks; what else is unpacked stays
    unknown.
    """
    items: dict[str, ast.expr] = {}
    for key, value in _items(node):
        if key is not None:
            items[key] = value
        elif isinstance(value, ast.Name):
            if value.id in others and value.id not in seen:
                items.update(items_of(others[value.id], others, seen | {value.id}))
        elif not _makes_something(value):
            items.update(items_of(value, others, seen))
    return items


def _items(node: ast.expr) -> Iterator[tuple[str | None, ast.expr]]:
    """Each item of an expression; with None as key what it unpacks."""
    match node:
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if key is None:
                    yield None, value
                elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        case ast.Call(args=args, keywords=keywords):
            yield from ((None, argument) for argument in args)
            yield from ((keyword.arg, keyword.value) for keyword in keywords)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            yield from ((None, left), (None, right))
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            yield from filter(None, map(as_item, elts))
        case _:
            pass


def members_of(
    node: ast.expr, others: Mapping[str, ast.expr], seen: frozenset[str] = frozenset()
) -> Iterator[ast.expr]:
    """The elements that an expression holds, those of `*NAME` among `others` included."""
    match node:
        case ast.Starred(value=value):
            yield from members_of(value, others, seen)
        case ast.Name(id=name) if name in others and name not in seen:
            yield from members_of(others[name], others, seen | {name})
        case ast.BinOp(op=ast.BitOr() | ast.Add(), left=left, right=right):
            yield from _members_of_parts([left, right], others, seen)
        case ast.Call(args=args):
            yield from _members_of_parts(args, others, seen)
        case _:
            for element in elements(node):
                if isinstance(element, ast.Starred):
                    yield from _members_of_parts([element.value], others, seen)
                else:
                    yield element


def _members_of_parts(
    parts: list[ast.expr], others: Mapping[str, ast.expr], seen: frozenset[str]
) -> Iterator[ast.expr]:
    for part in parts:
        if not _makes_something(part):
            yield from members_of(part, others, seen)


# --- paths --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name as a manifest writes it: `Class.NAME["key"][0]`."""

    classes: tuple[str, ...]
    name: str
    keys: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> TableName:
        """The parts of a TablePath."""
        head, bracket, rest = text.partition("[")
        *classes, name = head.split(".")
        keys = re.findall(r'\["([^"]*)"\]|\[([0-9]+)\]', bracket + rest)
        return cls(tuple(classes), name, tuple(key or int(number) for key, number in keys))
