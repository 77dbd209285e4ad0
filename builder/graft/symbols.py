"""Where the names of modules lead: through imports, re-exports, aliases and lazy tables."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from builder.graft.classes import Class, Definitions, Member, definitions_of, dotted
from builder.graft.syntax import module_scope
from builder.graft.tables import dict_literals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.graft.imports import ModuleName
    from builder.graft.modules import Modules

_NOTHING = Definitions()


@dataclass(frozen=True, slots=True)
class Origin:
    """What a name means, and the module whose text defines it.

    `outside` is what no text here can tell: another package, a compiled module, a name made at
    run time; `name` is then as much of its dotted name as is known, and `module` is empty.
    """

    kind: Literal["module", "class", "function", "value", "outside"]
    module: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Lineage:
    """A class and its bases in the order in which Python looks through them.

    `outside` are the bases that no text here defines.
    """

    classes: tuple[tuple[Origin, Class], ...]
    outside: frozenset[str]

    @property
    def open_ended(self) -> bool:
        """Whether a class of it can have members that no text names."""
        return any(found.open_ended for _, found in self.classes)

    def provider(self, member: str, *, after: int = 0) -> tuple[Origin, Member] | None:
        """The first class that defines a member, from the given place on."""
        for origin, found in self.classes[after:]:
            if member in found.members:
                return origin, found.members[member]
        return None

    def stores(self, attribute: str) -> Origin | None:
        """The first class whose methods store an attribute on the instance."""
        for origin, found in self.classes:
            if attribute in found.set_on_self:
                return origin
        return None


class Symbols:
    """The names of one tree's modules; what was found is kept."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self._found: dict[tuple[str, str], Origin | None] = {}
        self._lineages: dict[Origin, Lineage] = {}

    def definitions(self, module: str) -> Definitions:
        """The classes and functions that a module defines itself; none of an unknown one."""
        path = self.modules.path(module)
        return (path and self.modules.fact(definitions_of, path)) or _NOTHING

    def find(self, module: str, name: str) -> Origin | None:
        """What a dotted name means in a module's text; None if it leads nowhere.

        Names that the module does not bind (builtins, say) lead nowhere too.
        """
        key = (module, name)
        if key not in self._found:
            self._found[key] = None  # what leads back to itself leads nowhere
            self._found[key] = self._find(module, name)
        return self._found[key]

    def lineage(self, origin: Origin) -> Lineage:
        """The lineage of a class that `find` gave."""
        if origin not in self._lineages:
            self._lineages[origin] = Lineage((), frozenset())  # a class that inherits itself
            self._lineages[origin] = self._lineage(origin)
        return self._lineages[origin]

    def function(self, origin: Origin) -> Member | None:
        """The function that `find` gave."""
        return self.definitions(origin.module).functions.get(origin.name)

    def _find(self, module: str, name: str) -> Origin | None:
        head, _, rest = name.partition(".")
        found = self._head(module, head)
        if found is None or not rest:
            return found
        match found.kind:
            case "module":
                return self.find(found.name, rest)
            case "class":
                inner = f"{found.name}.{rest}"
                if inner in self.definitions(found.module).classes:
                    return Origin("class", found.module, inner)
                return Origin("value", found.module, inner)
            case "outside":
                return Origin("outside", "", f"{found.name}.{rest}")
            case _:
                return Origin("value", found.module, f"{found.name}.{rest}")

    def _head(self, module: str, name: str) -> Origin | None:
        """What a name without dots means as an attribute of a module that exists."""
        unknown = Origin("outside", "", f"{module}.{name}")
        if not self._is_readable(module):
            return unknown
        own = self.definitions(module)
        if name in own.classes:
            return Origin("class", module, name)
        if name in own.functions:
            return Origin("function", module, name)
        return self._through(self._targets(module, name)) or self._rest(module, name, unknown)

    def _rest(self, module: str, name: str, unknown: Origin) -> Origin | None:
        """What a name means that a module neither defines nor takes from elsewhere."""
        names = self.modules.names(module)
        if self.modules.path(f"{module}.{name}") is not None:
            return Origin("module", "", f"{module}.{name}")
        if name in names.bound:
            return Origin("value", module, name)
        return unknown if names.any_name or name in names.served else None

    def _through(self, targets: Iterator[tuple[str, str]]) -> Origin | None:
        """The first of several places for a name that has it; `outside` only if no other has."""
        outside = None
        for target, symbol in targets:
            found = self._target(target, symbol)
            if found is not None and found.kind != "outside":
                return found
            outside = outside or found
        return outside

    def _target(self, module: str, symbol: str) -> Origin | None:
        if self.modules.path(module) is None:
            known = self.modules.path(module.partition(".")[0]) is not None
            text = f"{module}.{symbol}".rstrip(".")
            return None if known else Origin("outside", "", text)
        return self.find(module, symbol) if symbol else Origin("module", "", module)

    def _targets(self, module: str, name: str) -> Iterator[tuple[str, str]]:
        """Where else a module's name may come from: (module, name there)."""
        yield from self._aliases_of(module).get(name, ())
        for star in self.modules.names(module).stars:
            public = self.modules.names(star).public if self.modules.path(star) else None
            if name in public if public is not None else not name.startswith("_"):
                yield star, name

    def _aliases_of(self, module: str) -> Mapping[str, list[tuple[str, str]]]:
        path = self.modules.path(module)
        return (path and self.modules.fact(aliases_of, path)) or {}

    def _is_readable(self, module: str) -> bool:
        path = self.modules.path(module)
        return path is not None and self.modules.is_readable(path)

    def _lineage(self, origin: Origin) -> Lineage:
        own = self.definitions(origin.module).classes[origin.name]
        outside: set[str] = set()
        parents: list[Lineage] = []
        for base in own.bases:
            found = self.find(origin.module, base) if base else None
            if found is not None and found.kind == "class":
                parents.append(self.lineage(found))
                outside |= parents[-1].outside
            else:
                name = found.name if found is not None else base or "?"
                outside.add(name)
        orders = [list(parent.classes) for parent in parents]
        orders.append([parent.classes[0] for parent in parents if parent.classes])
        return Lineage(((origin, own), *_merged(orders)), frozenset(outside))


def _merged(orders: list[list[tuple[Origin, Class]]]) -> Iterator[tuple[Origin, Class]]:
    """One order out of several, as Python's C3 makes it; an impossible one goes by first come."""
    orders = [order for order in orders if order]
    while orders:
        later = {origin for order in orders for origin, _ in order[1:]}
        heads = [order[0] for order in orders]
        chosen = next((head for head in heads if head[0] not in later), heads[0])
        yield chosen
        kept = ([item for item in order if item[0] != chosen[0]] for order in orders)
        orders = [order for order in kept if order]


def aliases_of(tree: ast.Module, name: ModuleName) -> Mapping[str, list[tuple[str, str]]]:
    """Where each name that a module takes from elsewhere can come from: (module, name there)."""
    found: dict[str, list[tuple[str, str]]] = {}
    for alias, target in _aliases(tree, name):
        found.setdefault(alias, []).append(target)
    return found


def _aliases(tree: ast.Module, name: ModuleName) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each name that a module takes from elsewhere, with the module and the name there."""
    for node in module_scope(tree):
        match node:
            case ast.Import(names=aliases):
                yield from map(_imported, aliases)
            case ast.ImportFrom(module=module, names=aliases, level=level):
                absolute = name.absolute(module or "", level)
                yield from ((item.asname or item.name, (absolute, item.name)) for item in aliases)
            case ast.Assign(
                targets=[ast.Name(id=target)], value=ast.Name() | ast.Attribute() as value
            ) if dotted(value) not in ("", target):
                yield target, (name.dotted, dotted(value))
            case _:
                pass
    for table in dict_literals(tree).values():
        yield from _lazy(table, name)


def _imported(alias: ast.alias) -> tuple[str, tuple[str, str]]:
    top = alias.name.partition(".")[0]
    return (alias.asname, (alias.name, "")) if alias.asname else (top, (top, ""))


def _lazy(table: ast.Dict, name: ModuleName) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names that a lazy module's table leads elsewhere: to `module`, or to `module:name`."""
    for key, value in zip(table.keys, table.values, strict=True):
        match key, value:
            case ast.Constant(value=str(alias)), ast.Constant(value=str(target)):
                module, _, symbol = target.partition(":")
                level = len(module) - len(module.lstrip("."))
                if level or "." in module:
                    yield alias, (name.absolute(module.lstrip("."), level), symbol or alias)
            case _:
                pass
