"""Whether the assembled image closes: imports, registrations, commands and version."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from builder.errors import BuildError
from builder.graft.assembled import OurFile, assembled
from builder.graft.commands import check_commands
from builder.graft.donor_tables import missing_in_tables
from builder.graft.donors import Donors
from builder.graft.findings import OtherFailure, UnreadableModule, WrongVersion
from builder.graft.grafted import broken_by_graft
from builder.graft.installed import Installed, not_installed
from builder.graft.model_types import unknown_model_type
from builder.graft.modules import Modules
from builder.graft.open_imports import lost_modules, lost_names, open_imports
from builder.graft.packages import VLLM, find_package, installed_version
from builder.graft.parsed import Parsed
from builder.graft.plugin_findings import plugins_not_loaded, unmet_plugins
from builder.graft.registrations import unknown_architectures, unmet_register
from builder.graft.verdicts import keep_verdict, kept_verdict, verdict_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from builder.digest import JsonValue
    from builder.graft.commands import Launch
    from builder.graft.findings import Finding
    from builder.graft.packages import PackageRoot, Read
    from builder.graft.pick import Pick
    from builder.graft.verdicts import Verdicts
    from builder.image_section import Plugin, Register
    from builder.oci.tree import ImageTree

__all__ = ["ClosureInputs", "OurFile", "check_closure"]


@dataclass(frozen=True, slots=True)
class ClosureInputs:
    """All that decides whether an image closes.

    `read` gives the content of base and donor files and of picks. `tables` are the edited
    modules and `files` our own files; a later one of equal path wins, and picks come first.
    `removed` are tree paths that diffs delete, and `patched` the packages that they are made for.
    `plugins_allowed` are the values of VLLM_PLUGINS.
    `donors` may be empty (a build from the lock alone): then no remedy can name a donor's file.
    Without `model_type` the checkpoint has none to look for, or brings its own class for it.
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
    patched: tuple[str, ...] = ()
    registers: tuple[Register, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    plugins_allowed: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    model_type: str = ""
    donors: Mapping[str, ImageTree] = field(default_factory=dict)
    place: Callable[[str], str] = "cluster.toml: {}".format


def check_closure(inputs: ClosureInputs, verdicts: Verdicts | None = None) -> tuple[Finding, ...]:
    """Everything that would fail in a container of the image; empty if it closes.

    Findings come in a fixed order: version, then package by package imports, registrations,
    overrides and calls, tables; then architectures and model type, plugins, commands. With
    `verdicts` what modules say is not read again when nothing changed. The caller raises
    ClosureError(findings) if there are any. Raises PackageNotFoundError or PackageAmbiguousError
    when a package itself cannot be found.
    """
    view = _View.of(inputs)
    return (
        *view.version(),
        *view.modules(verdicts),
        *view.plugins(),
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
        found = {pick.package for pick in self.inputs.picks}.union(self.inputs.patched)
        found |= {register.package for register in self.inputs.registers}
        vllm = self.root(VLLM)
        return sorted(found | ({VLLM} if self._added(vllm) or self._removed(vllm) else set()))

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

    def modules(self, verdicts: Verdicts | None) -> tuple[Finding, ...]:
        """The findings that the texts of modules decide, kept ones if there are."""
        if verdicts is None:
            return self._judged()
        trees = {f"donor {name}": tree for name, tree in self.inputs.donors.items()}
        trees |= {"base": self.inputs.base, "image": self.tree}
        key = verdict_key(verdicts.checker, self._facts(), trees)
        found = kept_verdict(verdicts, key)
        if found is None:
            found = self._judged()
            keep_verdict(verdicts, key, found)
        return found

    def _judged(self) -> tuple[Finding, ...]:
        """The findings of modules, made without the search for cycles.

        Syntax trees have none, and looking for some in them takes a third of the time.
        """
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return tuple(self._of_modules())
        finally:
            if was_enabled:
                gc.enable()

    def _facts(self) -> JsonValue:
        """All that decides the findings of modules, besides the trees."""
        registers: list[JsonValue] = [
            [self.inputs.place(f"image.register[{index}]"), item.model_dump(mode="json")]
            for index, item in enumerate(self.inputs.registers)
        ]
        picks: list[JsonValue] = [[item.target, item.donor] for item in self.inputs.picks]
        return {
            "python": sys.version,
            "packages": [*self.packages()],
            "roots": [self.root(package).path for package in self.packages()],
            "picks": picks,
            "files": sorted(file.path for file in self.inputs.files),
            "removed": sorted(self.inputs.removed),
            "registers": registers,
            "architectures": [*self.inputs.architectures],
            "by_plugins": sorted(self._by_plugins()),
            "model_type": self.inputs.model_type,
        }

    def _of_modules(self) -> Iterator[Finding]:
        for package in self.packages():
            yield from self._package(package)
        yield from self._checkpoint()

    def _package(self, package: str) -> Iterator[Finding]:
        """The findings of one package."""
        root = self.root(package)
        base = Modules(self.inputs.base, self.inputs.read, root.site, self.parsed)
        modules = Modules(self.tree, self.read, root.site, self.parsed)
        added = self._added(root)
        yield from open_imports(modules, root, added, self.donors)
        yield from self._not_installed(modules, root, added)
        yield from lost_names(base, modules, root, added, self.donors)
        yield from lost_modules(modules, root, self._removed(root), added)
        for index, register in enumerate(self.inputs.registers):
            if register.package == package:
                place = self.inputs.place(f"image.register[{index}]")
                yield from unmet_register(modules, root, register, place, self.donors)
        unreadable = sorted(modules.unreadable.values(), key=lambda module: module.path)
        yield from broken_by_graft(base, modules, root, added, self.donors)
        told = self._by_plugins().union(self.inputs.architectures)
        yield from missing_in_tables(root, base, modules, added, self.donors, told=told)
        for module in unreadable:
            yield UnreadableModule(module.path, module.line, module.reason)

    def _not_installed(
        self, modules: Modules, root: PackageRoot, added: Mapping[str, str]
    ) -> Iterator[Finding]:
        """The imports of grafted files from beside their package that their donor alone has."""
        trees = {name: tree for name, tree in self.inputs.donors.items() if name in added.values()}
        if trees:
            donors = {name: Installed(tree) for name, tree in trees.items()}
            yield from not_installed(modules, root, Installed(self.tree), donors, added)

    def plugins(self) -> Iterator[Finding]:
        """The findings of all plugins: their modules' imports, their classes, their loading."""
        plugins, place = self.inputs.plugins, self.inputs.place
        if not plugins:
            return
        root = self.root(VLLM)
        modules = Modules(self.tree, self.read, root.site, self.parsed)
        added = self._beside(root)
        tops = (path.removeprefix(f"{root.site}/").partition("/")[0] for path in added)
        beside = frozenset(top.removesuffix(".py") for top in tops)
        yield from open_imports(modules, root, added, self.donors, beside=beside)
        yield from unmet_plugins(modules, root, plugins, place, self.donors)
        yield from plugins_not_loaded(plugins, self.inputs.plugins_allowed, place)
        for module in sorted(modules.unreadable.values(), key=lambda module: module.path):
            yield UnreadableModule(module.path, module.line, module.reason)

    def _checkpoint(self) -> Iterator[Finding]:
        root = self.root(VLLM)
        base = Modules(self.inputs.base, self.inputs.read, root.site, self.parsed)
        modules = Modules(self.tree, self.read, root.site, self.parsed)
        registered = self._by_plugins()
        wanted = [name for name in self.inputs.architectures if name not in registered]
        yield from unknown_architectures(base, modules, root, wanted, self.donors)
        model_type = self.inputs.model_type
        yield from unknown_model_type(modules, root, self.tree, model_type, self.donors)

    def _by_plugins(self) -> frozenset[str]:
        """The architectures that plugins register."""
        return frozenset(name for plugin in self.inputs.plugins for name in plugin.register_)

    def _added(self, root: PackageRoot) -> dict[str, str]:
        """The modules of a package that we add: tree path to donor, or to "" for our own."""
        picks = {pick.target: pick.donor for pick in self.inputs.picks}
        ours = {file.path: "" for file in self.inputs.files}
        real = {self.tree.resolve(path): donor for path, donor in {**ours, **picks}.items()}
        return {
            path: donor
            for path, donor in real.items()
            if path.endswith(".py") and root.relative(path) is not None
        }

    def _removed(self, root: PackageRoot) -> list[str]:
        """The modules of a package that are deleted, as tree paths."""
        return [
            path
            for path in self.inputs.removed
            if path.endswith(".py") and root.relative(path) is not None
        ]

    def _beside(self, root: PackageRoot) -> dict[str, str]:
        """The modules that we add beside a package, in its site folder, as _added."""
        return {
            file.path: ""
            for file in self.inputs.files
            if file.path.endswith(".py")
            and file.path.startswith(f"{root.site}/")
            and root.relative(file.path) is None
        }
