"""What the donors have that would close an open end of the assembled image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder.errors import BuildError
from builder.graft.findings import DonorEntry, DonorFile, DonorValue
from builder.graft.mentions import mentions_of
from builder.graft.modules import Modules
from builder.graft.packages import PackageRoot, find_package
from builder.graft.tables import as_pair, dict_literals, own_items

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.graft.packages import Read
    from builder.graft.parsed import Parsed
    from builder.oci.tree import ImageTree

REGISTRY: Final = "model_executor/models/registry.py"
"""vLLM's table of architectures, relative to its package's folder."""


class Donors:
    """The donors of a manifest, asked one after the other; each is read when it is first asked.

    `image` is the assembled tree, in which a donor's file may replace one.
    """

    def __init__(
        self, trees: Mapping[str, ImageTree], read: Read, image: ImageTree, parsed: Parsed
    ) -> None:
        self._trees = trees
        self._read = read
        self._image = image
        self._parsed = parsed
        self._modules: dict[tuple[str, str], tuple[PackageRoot, Modules] | None] = {}

    def closing(
        self, root: PackageRoot, module: str, symbol: str = "", *, first: str = ""
    ) -> DonorFile | None:
        """The donor's file that has a module, or a symbol of it; None if no donor has it.

        `root` is the package in the assembled image, `first` the donor to ask before the others.
        """
        for donor, there, modules in self._each(root.package, first):
            path = _defining(modules, module, symbol)
            file = there.relative(path) if path else None
            if file is not None and file.endswith(".py"):
                return DonorFile(donor, file, self._image.find(root.file(file)) is not None)
        return None

    def open(self, donor: str, package: str) -> tuple[PackageRoot, Modules] | None:
        """A package in a donor, and the donor's modules; None if it does not have the package."""
        if donor not in self._trees:
            return None
        key = (donor, package)
        if key not in self._modules:
            self._modules[key] = self._opened(donor, package)
        return self._modules[key]

    def registering(self, package: str, architecture: str) -> DonorEntry | None:
        """A donor's registration of an architecture; None if no donor has one."""
        for donor, there, modules in self._each(package, ""):
            tree = modules.tree(there.file(REGISTRY))
            for table, literal in dict_literals(tree).items() if tree else ():
                value = own_items(literal).get(architecture)
                pair = None if value is None else as_pair(value)
                if pair is not None:
                    return DonorEntry(donor, table, pair)
        return None

    def entry(self, package: str, file: str, key: str) -> DonorValue | None:
        """A donor's entry of a key in a table of a file; None if no donor has one."""
        for donor, there, modules in self._each(package, ""):
            found = modules.fact(mentions_of, there.file(file))
            for entry in () if found is None else found.entries:
                if entry.key == key and entry.toml:
                    return DonorValue(donor, entry.table, entry.toml)
        return None

    def _each(self, package: str, first: str) -> Iterator[tuple[str, PackageRoot, Modules]]:
        for donor in sorted(self._trees, key=lambda name: (name != first, name)):
            found = self.open(donor, package)
            if found is not None:
                yield (donor, *found)

    def _opened(self, donor: str, package: str) -> tuple[PackageRoot, Modules] | None:
        try:
            root = find_package(self._trees[donor], package, image=f"donor {donor}")
        except BuildError:  # a donor without the package simply has nothing to offer
            return None
        return root, Modules(self._trees[donor], self._read, root.site, self._parsed)


def _defining(modules: Modules, module: str, symbol: str) -> str | None:
    """The path of the file that has the symbol, or of the module itself without a symbol."""
    path = modules.path(module)
    if path is None or not symbol:
        return path
    submodule = modules.path(f"{module}.{symbol}")
    if submodule is not None and symbol not in modules.names(module).bound:
        return submodule
    return path if modules.provides(module, symbol) else None
