"""Whether what is registered exists, and whether what must be registered is."""

from __future__ import annotations

from difflib import get_close_matches
from posixpath import dirname
from typing import TYPE_CHECKING

from builder.errors import BuildError
from builder.graft.donors import REGISTRY
from builder.graft.findings import MissingClass, UnknownArchitecture
from builder.graft.table_finding import find_table
from builder.graft.tables import as_pair, dict_literals, table_items

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from builder.graft.donors import Donors
    from builder.graft.modules import Modules
    from builder.graft.packages import PackageRoot
    from builder.image_section import Register


def registered_module(package: str, file: str, module: str) -> str:
    """The dotted name that a registered module name means.

    A name without a dot stands for a module beside the table's file (`file` is relative to the
    package's folder); one with a dot is absolute.
    """
    if "." in module:
        return module
    return f"{package}/{dirname(file)}/{module}".replace("//", "/").replace("/", ".")


def unmet_register(
    modules: Modules, root: PackageRoot, register: Register, place: str, donors: Donors
) -> Iterator[MissingClass]:
    """The entries of a register whose class is not in the assembled image, in their order."""
    for key, pair in _pairs(register):
        if _names_classes(modules, root, register):
            where = f"{place}.entries.{key}"
            yield from _missing_class(modules, root, register.file, (where, key, pair), donors)


def _pairs(register: Register) -> Iterator[tuple[str, tuple[str, str]]]:
    """The entries whose value may be a module and a class of it."""
    for key, value in register.entries.items() if isinstance(register.entries, dict) else ():
        match value:
            case (str(module), str(name)):
                yield key, (module, name)
            case _:
                pass


def _names_classes(modules: Modules, root: PackageRoot, register: Register) -> bool:
    """Whether pairs of a table mean a module and a class: as far as its other entries tell.

    A table in which no other pair leads to a module holds pairs of another meaning; that of
    vLLM's registry is known.
    """
    if register.file == REGISTRY:
        return True
    tree = modules.tree(root.file(register.file))
    try:
        found = find_table(tree, register.table, register.file, keyed=True) if tree else None
    except BuildError:  # what replaced the edited module has another table, or none
        found = None
    others = found.items.items() if found else ()
    pairs = [as_pair(value) for key, value in others if key not in register.entries]
    names = [registered_module(root.package, register.file, pair[0]) for pair in pairs if pair]
    return not names or any(modules.path(name) is not None for name in names)


def unknown_architectures(
    base: Modules,
    modules: Modules,
    root: PackageRoot,
    architectures: Sequence[str],
    donors: Donors,
) -> Iterator[UnknownArchitecture | MissingClass]:
    """The checkpoint's architectures that vLLM's registry does not know, or knows in vain.

    The class of an entry that the base had already is the base's affair, unless it is found there
    as we look for it: its registry may resolve module names in a way of its own.
    """
    registry = root.file(REGISTRY)
    before = _entries(base, registry)
    known = _entries(modules, registry)
    for architecture in architectures:
        if architecture not in known:
            near = get_close_matches(architecture, sorted(known), n=3)
            known_by = donors.registering(root.package, architecture)
            yield UnknownArchitecture(
                architecture, registry, root.package, REGISTRY, tuple(near), known_by
            )
        elif known[architecture] != before.get(architecture) or _is_found(
            base, root, known[architecture]
        ):
            entry = (f"/{registry}", architecture, known[architecture])
            yield from _missing_class(modules, root, REGISTRY, entry, donors)


def _is_found(base: Modules, root: PackageRoot, pair: tuple[str, str]) -> bool:
    module = registered_module(root.package, REGISTRY, pair[0])
    return base.path(module) is not None and base.provides(module, pair[1])


def _entries(modules: Modules, registry: str) -> dict[str, tuple[str, str]]:
    """All registrations of a registry's tables, those that are unpacked into others included."""
    tree = modules.tree(registry)
    entries: dict[str, tuple[str, str]] = {}
    if tree is None:
        return entries
    for table in dict_literals(tree).values():
        for key, value in table_items(tree, table).items():
            pair = as_pair(value)
            if pair is not None:
                entries[key] = pair
    return entries


def _missing_class(
    modules: Modules,
    root: PackageRoot,
    file: str,
    entry: tuple[str, str, tuple[str, str]],
    donors: Donors,
) -> Iterator[MissingClass]:
    """The finding for an entry (place, key, value) of the table in `file`, if it is in vain."""
    place, key, (name, symbol) = entry
    module = registered_module(root.package, file, name)
    yield from missing_class(modules, root, (place, key, (module, symbol)), donors)


def missing_class(
    modules: Modules,
    root: PackageRoot,
    entry: tuple[str, str, tuple[str, str]],
    donors: Donors,
) -> Iterator[MissingClass]:
    """The finding for an entry (place, key, value) whose class is not in the image.

    The value is a module by its absolute name, and the class.
    """
    place, key, (module, symbol) = entry
    has_module = modules.path(module) is not None
    if has_module and modules.provides(module, symbol):
        return
    names = modules.names(module).bound if has_module else modules.siblings(module)
    near = get_close_matches(
        symbol if has_module else module.rpartition(".")[2], sorted(names), n=3, cutoff=0.5
    )
    closed_by = donors.closing(root, module, symbol)
    yield MissingClass(place, key, module, symbol, has_module, tuple(near), closed_by)
