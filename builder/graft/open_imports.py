"""Imports inside a package that the assembled image cannot satisfy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graft.findings import LostModule, LostName, OpenImport
from builder.graft.imports import ModuleName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from builder.graft.donors import Donors
    from builder.graft.imports import Import
    from builder.graft.modules import Modules
    from builder.graft.packages import PackageRoot


def open_imports(
    modules: Modules,
    root: PackageRoot,
    added: Mapping[str, str],
    donors: Donors,
    *,
    beside: frozenset[str] = frozenset(),
) -> Iterator[OpenImport]:
    """The imports of added files that fail, by file and line.

    `added` maps the tree path of each added module to the donor it came from, or to the empty
    string. Imports from outside the package and the packages or modules `beside` are not judged,
    nor those that may fail.
    """
    judged = beside | {root.package}
    for path, donor in sorted(added.items()):
        for item in modules.imports(path):
            if item.optional or not _is_inside(item.module, judged):
                continue
            for symbol in _unmet(modules, item):
                closed_by = donors.closing(root, item.module, symbol, first=donor)
                yield OpenImport(path, item.line, item.module, symbol, closed_by, donor)


def lost_names(
    base: Modules, modules: Modules, root: PackageRoot, added: Mapping[str, str], donors: Donors
) -> Iterator[LostName]:
    """The imports of the base's own files that an added file breaks by replacing another.

    A donor's version of a module may lack a name that the base's version has; whatever in the
    base still imports that name then fails.
    """
    for replaced, donor in sorted(added.items()):
        module = ModuleName.of(replaced.removeprefix(root.site + "/")).dotted
        if base.path(module) != replaced:
            continue
        before = base.names(module)
        names = before.bound | before.served
        lost = {name for name in names if not modules.provides(module, name)}
        for path, line, name in _importers(modules, root, module, lost, added):
            importer = ModuleName.of(path.removeprefix(root.site + "/")).dotted
            closed_by = donors.closing(root, importer, first=donor)
            yield LostName(path, line, module, name, importer, replaced, donor, closed_by)


def lost_modules(
    modules: Modules, root: PackageRoot, removed: Iterable[str], added: Mapping[str, str]
) -> Iterator[LostModule]:
    """The imports of the base's own files that fail since the modules at tree paths are deleted."""
    gone = {ModuleName.of(path.removeprefix(root.site + "/")).dotted: path for path in removed}
    stems = [module.rpartition(".")[2].encode() for module in gone]
    for path in modules.below(root.path) if gone else ():
        source = modules.source(path) or b""
        if path in added or not any(stem in source for stem in stems):
            continue
        for item in modules.imports(path):
            for symbol in () if item.optional else _unmet(modules, item):
                deleted = gone.get(item.module) or gone.get(f"{item.module}.{symbol}")
                if deleted is not None:
                    importer = ModuleName.of(path.removeprefix(root.site + "/")).dotted
                    yield LostModule(path, item.line, item.module, symbol, importer, deleted)


def _unmet(modules: Modules, item: Import) -> tuple[str, ...]:
    """The names of an import that are missing; the empty string for the module itself."""
    if modules.path(item.module) is None:
        return ("",)
    wanted = (name for name in item.names if name != "*")
    return tuple(name for name in wanted if not modules.provides(item.module, name))


def _importers(
    modules: Modules, root: PackageRoot, module: str, lost: set[str], added: Mapping[str, str]
) -> Iterator[tuple[str, int, str]]:
    """Path, line and name of each import of a lost name by a file that was not added.

    A file is only parsed if its text has the module's own name and one of the lost ones.
    """
    needles = [name.encode() for name in sorted(lost)]
    stem = module.rpartition(".")[2].encode()
    for path in modules.below(root.path) if lost else ():
        source = modules.source(path)
        if path in added or source is None or stem not in source:
            continue
        if not any(needle in source for needle in needles):
            continue
        for item in modules.imports(path):
            if item.module == module and not item.optional:
                yield from ((path, item.line, name) for name in item.names if name in lost)


def _is_inside(module: str, packages: frozenset[str]) -> bool:
    """Whether a module belongs to a package; dots lead out of it by mistake, so they count."""
    return module.startswith(".") or module.partition(".")[0] in packages
