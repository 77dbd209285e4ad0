"""The modules of all site folders of an image, and imports that find none of them."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from builder.graft.findings import NotInstalled
from builder.graft.imports import ModuleName
from builder.oci.tree import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.graft.modules import Modules
    from builder.graft.packages import PackageRoot
    from builder.oci.tree import ImageTree

_SITE: Final = re.compile(r"(?:.*/)?(?:site|dist)-packages")
_POINTERS: Final = (".pth", ".egg-link")
"""Files of a site folder by which modules of elsewhere are found, named after what they bring."""


class Installed:
    """What can be imported from the site folders of an image, without looking into any file."""

    def __init__(self, tree: ImageTree) -> None:
        self._tree = tree
        self._sites = [
            path
            for path, entry in sorted(tree.entries.items())
            if entry.kind is Kind.DIRECTORY and _SITE.fullmatch(path)
        ]
        self._compiled: set[str] = set()
        self._pointers: set[str] = set()
        for path in tree.entries:
            folder, _, file = path.rpartition("/")
            if file.endswith(".so"):
                self._compiled.add(f"{folder}/{file.partition('.')[0]}")
            elif file.endswith(_POINTERS):
                self._pointers.add(_normal(file))

    def has(self, module: str) -> bool:
        """Whether a dotted module stands in a site folder, as text, compiled, or as a folder."""
        return any(self._is_at(f"{site}/{module.replace('.', '/')}") for site in self._sites)

    def may_have(self, module: str) -> bool:
        """Whether `has` it, or a file points to its package in another folder."""
        top = _normal(module.partition(".")[0])
        return self.has(module) or any(top in pointer for pointer in self._pointers)

    def _is_at(self, stem: str) -> bool:
        if stem in self._compiled:
            return True
        found = (self._tree.find(f"{stem}.py"), self._tree.find(stem))
        kinds = (Kind.FILE, Kind.DIRECTORY)
        return any(
            entry is not None and entry.kind is kind
            for entry, kind in zip(found, kinds, strict=True)
        )


def not_installed(
    modules: Modules,
    root: PackageRoot,
    image: Installed,
    donors: Mapping[str, Installed],
    added: Mapping[str, str],
) -> Iterator[NotInstalled]:
    """The imports of grafted files, from beside their package, that work in their donor alone.

    `added` maps the tree path of each added module to its donor. The donor is what tells a module
    that is installed from one that Python brings, or that nobody has.
    """
    for path, donor in sorted(added.items()):
        there = donors.get(donor)
        told: set[str] = set()
        for item in modules.imports(path) if there is not None else ():
            top = item.module.partition(".")[0]
            if item.optional or item.module in told or top in {"", root.package}:
                continue
            told.add(item.module)
            if top in sys.stdlib_module_names or image.may_have(item.module):
                continue
            if there is not None and there.has(item.module):
                importer = ModuleName.of(path.removeprefix(root.site + "/")).dotted
                has_top = image.has(top)
                yield NotInstalled(path, item.line, item.module, importer, donor, has_top)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).casefold()
