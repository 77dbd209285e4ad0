"""Whether the assembled image closes: imports, registrations, commands and version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from builder.errors import BuildError
from builder.graft.assembled import OurFile, assembled
from builder.graft.commands import check_commands
from builder.graft.donor_tables import missing_in_tables
from builder.graft.donors import Donors
from builder.graft.findings import OtherFailure, UnreadableModule, WrongVersion
from builder.graft.grafted import broken_by_graft
from builder.graft.modules import Modules
from builder.graft.open_imports import lost_names, open_imports
from builder.graft.packages import VLLM, find_package, installed_version
from builder.graft.parsed import Parsed
from builder.graft.plugin_findings import plugins_not_loaded, unmet_plugins
from builder.graft.registrations import unknown_architectures, unmet_register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from builder.graft.commands import Launch
    from builder.graft.findings import Finding
    from builder.graft.packages import PackageRoot, Read
    from builder.graft.pick import Pick
    from builder.manifest import Plugin, Register
    from builder.oci.tree import ImageTree

__all__ = ["ClosureInputs", "OurFile", "check_closure"]


@dataclass(frozen=True, slots=True)
class ClosureInputs:
    """All that decides whether an image closes.

    `read` gives the content of base and donor files and of picks. `tables` are the edited
    modules and `files` our own files; a later one of equal path wins, and picks come first.
    `removed` are tree paths that we delete. `plugins_allowed` is VLLM_PLUGINS of every container.
    `donors` may be empty (a build from the lock alone): then no remedy can name a donor's file.
    `place` turns a location of the manifest, such as `vllm.version`, into an error's place.
    """

    base: ImageTree
    read: Read
    launch: Launch
    vllm_version: str
    picks: tuple[Pick, ...] = ()
    tables: tuple[OurFile, ...] = ()
    files: tuple[OurFile, ...] = ()
    removed: tuple[str, ...] = ()
    registers: tuple[Register, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    plugins_allowed: str | None = None
    architectures: tuple[str, ...] = ()
    donors: Mapping[str, ImageTree] = field(default_factory=dict)
    place: Callable[[str], str] = "cluster.toml: {}".format


def check_closure(inputs: ClosureInputs) -> tuple[Finding, ...]:
    """Everything that would fail in a container of the image; empty if it closes.

    Findings come in a fixed order: version, then package by package imports and registrations,
    architectures, commands. The caller raises ClosureError(findings) if there are any. Raises
    PackageNotFoundError or PackageAmbiguousError when a package itself cannot be found.
    """
    view = _View.of(inputs)
    return (
        *view.version(),
        *(finding for package in view.packages() for finding in view.package(package)),
        *view.plugins(),
        *view.architectures(),
        *check_commands(view.tree, inputs.launch, place=inputs.place("serve.node_script")),
    )


@dataclass(frozen=True, slots=True)
class _View:
    """The inputs, and the assembled image that they make."""

    inputs: ClosureInputs
    tree: ImageTree
    read: Read
    donors: Donors
    parsed: Parsed

    @classmethod
    def of(cls, inputs: ClosureInputs) -> _View:
        files = (*inputs.tables, *inputs.files)
        parsed = Parsed()
        tree, read = assembled(inputs.base, inputs.read, inputs.picks, files, inputs.removed)
        return cls(inputs, tree, read, Donors(inputs.donors, inputs.read, tree, parsed), parsed)

    def packages(self) -> list[str]:
        """The packages in which something is changed, by name."""
        picked = {pick.package for pick in self.inputs.picks}
        found = picked | {register.package for register in self.inputs.registers}
        return sorted(found | ({VLLM} if self._added(self.root(VLLM)) else set()))

    def root(self, package: str) -> PackageRoot:
        return find_package(self.tree, package, image="base")

    def version(self) -> Iterator[Finding]:
        root, wanted = self.root(VLLM), self.inputs.vllm_version
        try:
            installed = installed_version(self.tree, self.read, root, image="base")
        except BuildError as error:
            yield from map(OtherFailure, error.messages)
            return
        if installed != wanted:
            yield WrongVersion(self.inputs.place("vllm.version"), VLLM, wanted, installed)

    def package(self, package: str) -> Iterator[Finding]:
        """The findings of one package: open imports, lost names, unmet registrations."""
        root = self.root(package)
        base = Modules(self.inputs.base, self.inputs.read, root.site, self.parsed)
        modules = Modules(self.tree, self.read, root.site, self.parsed)
        added = self._added(root)
        yield from open_imports(modules, root, added, self.donors)
        yield from lost_names(base, modules, root, added, self.donors)
        for index, register in enumerate(self.inputs.registers):
            if register.package == package:
                place = self.inputs.place(f"image.register[{index}]")
                yield from unmet_register(modules, root, register, place, self.donors)
        yield from broken_by_graft(base, modules, root, added, self.donors)
        told = frozenset(self.inputs.architectures)
        yield from missing_in_tables(root, base, modules, added, self.donors, told=told)
        for module in sorted(modules.unreadable.values(), key=lambda module: module.path):
            yield UnreadableModule(module.path, module.line, module.reason)

    def plugins(self) -> Iterator[Finding]:
        """The findings of all plugins: their modules' imports, their classes, their loading."""
        plugins, place = self.inputs.plugins, self.inputs.place
        if not plugins:
            return
        root = self.root(VLLM)
        modules = Modules(self.tree, self.read, root.site, self.parsed)
        yield from open_imports(modules, root, self._beside(root), self.donors)
        yield from unmet_plugins(modules, root, plugins, place, self.donors)
        yield from plugins_not_loaded(plugins, self.inputs.plugins_allowed, place)
        for module in sorted(modules.unreadable.values(), key=lambda module: module.path):
            yield UnreadableModule(module.path, module.line, module.reason)

    def architectures(self) -> Iterator[Finding]:
        root = self.root(VLLM)
        base = Modules(self.inputs.base, self.inputs.read, root.site, self.parsed)
        modules = Modules(self.tree, self.read, root.site, self.parsed)
        registered = {name for plugin in self.inputs.plugins for name in plugin.register_}
        wanted = [name for name in self.inputs.architectures if name not in registered]
        yield from unknown_architectures(base, modules, root, wanted, self.donors)

    def _added(self, root: PackageRoot) -> dict[str, str]:
        """The modules of a package that we add: tree path to donor, or to "" for our own."""
        picks = {pick.target: pick.donor for pick in self.inputs.picks}
        ours = {file.path: "" for file in self.inputs.files}
        real = {self.tree.resolve(path): donor for path, donor in {**picks, **ours}.items()}
        return {
            path: donor
            for path, donor in real.items()
            if path.endswith(".py") and root.relative(path) is not None
        }

    def _beside(self, root: PackageRoot) -> dict[str, str]:
        """The modules that we add beside a package, in its site folder, as _added."""
        return {
            file.path: ""
            for file in self.inputs.files
            if file.path.endswith(".py")
            and file.path.startswith(f"{root.site}/")
            and root.relative(file.path) is None
        }
