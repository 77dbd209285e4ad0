"""Overrides and calls of grafted files, and of the base's files that a graft reaches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from builder.graft.imports import ModuleName
from builder.graft.override_findings import Where
from builder.graft.overrides import broken
from builder.graft.subject import Subject
from builder.graft.symbols import Origin, Symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from builder.graft.donors import Donors
    from builder.graft.findings import DonorFile, Finding
    from builder.graft.modules import Modules
    from builder.graft.packages import PackageRoot


def broken_by_graft(
    base: Modules, modules: Modules, root: PackageRoot, added: Mapping[str, str], donors: Donors
) -> Iterator[Finding]:
    """What works in the donor, or in the base as it was, and fails in the assembled image.

    First the grafted files by path, then the base's own files that use what a graft replaced.
    """
    image = _Image(Symbols(modules), root, added)
    as_it_was = Symbols(base)
    references = {"": as_it_was}
    for path, donor in sorted(added.items()):
        opened = donors.open(donor, root.package)
        if opened is not None:
            before = references.setdefault(donor, Symbols(opened[1]))
            closing = partial(_of_donor, donors, root, donor)
            yield from broken(image.subject(path, donor, before, closing))
        elif not donor and base.has(path):  # a file of the base with a patch of ours
            closing = partial(_of_itself, donors, root, image.module(path))
            yield from broken(image.subject(path, "", as_it_was, closing))
    yield from _reached(image, as_it_was, donors)


class _Image:
    """The assembled modules, which of them were added, and where words stand in the others."""

    def __init__(self, symbols: Symbols, root: PackageRoot, added: Mapping[str, str]) -> None:
        self.symbols = symbols
        self.root = root
        self.added = added
        self._mentioning: dict[tuple[str, ...], tuple[str, ...]] = {}

    def module(self, path: str) -> str:
        """The dotted name of the module at a tree path."""
        return ModuleName.of(path.removeprefix(self.root.site + "/")).dotted

    def mentioning(self, words: tuple[str, ...]) -> Iterable[str]:
        """The base's own modules whose text has all of the words."""
        if words not in self._mentioning:
            found = self.symbols.modules.mentioning(self.root.path, words)
            own = (path for path in found if path not in self.added)
            self._mentioning[words] = tuple(map(self.module, own))
        return self._mentioning[words]

    def subject(
        self, path: str, donor: str, before: Symbols, closing: Callable[[Origin], DonorFile | None]
    ) -> Subject:
        """The module at a tree path, against a reference."""
        where = Where(path, 0, self.module(path), "", donor)
        return Subject(where, before, self.symbols, self.mentioning, closing)


def _reached(image: _Image, before: Symbols, donors: Donors) -> Iterator[Finding]:
    """The findings of the base's own files that name something which a graft changed."""
    names: set[str] = set()
    for path in image.added:
        module = image.module(path)
        if before.modules.path(module) == path:
            names |= _changed(before, image.symbols, module)
    modules = {module for name in names for module in image.mentioning((name,))}
    for module in sorted(modules):
        file = image.symbols.modules.path(module)
        if file is not None:
            closing = partial(_of_itself, donors, image.root, module)
            yield from broken(image.subject(file, "", before, closing))


def _changed(before: Symbols, after: Symbols, module: str) -> set[str]:
    """The top-level names of a module whose classes or signatures are not as they were."""
    old, new = before.definitions(module), after.definitions(module)
    functions = {
        name
        for name, member in old.functions.items()
        if name not in new.functions or new.functions[name].as_used != member.as_used
    }
    classes = {
        name.partition(".")[0]
        for name, found in old.classes.items()
        if name not in new.classes or not new.classes[name].can_replace(found)
    }
    return functions | classes


def _of_donor(donors: Donors, root: PackageRoot, donor: str, origin: Origin) -> DonorFile | None:
    """The donor's file that defines something as the grafted file needs it."""
    module, name = origin.module or origin.name, origin.name.partition(".")[0]
    return donors.closing(root, module, name if origin.module else "", first=donor)


def _of_itself(donors: Donors, root: PackageRoot, module: str, _: Origin) -> DonorFile | None:
    """The donor's version of the base's file: it fits the donor's other files."""
    return donors.closing(root, module)
