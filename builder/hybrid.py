"""The image part of a lock: what is picked, edited, added and hidden, proven to close."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from builder.asked import locked_acceptances
from builder.assembly import entrypoint_of, locked_layers, workdir_of
from builder.editing import Editing, mode_text, read_diffs
from builder.edits import changed, edited, steps_by_target
from builder.graft.acceptance import ClosureError, unaccepted
from builder.graft.closure import ClosureInputs, OurFile, check_closure
from builder.graft.commands import Launch
from builder.graft.packages import VLLM, PackageRoot, find_package
from builder.graft.pick import Pick, pick
from builder.lock import (
    LockedBase,
    LockedDir,
    LockedDonor,
    LockedFile,
    LockedImage,
    LockedPatch,
    LockedPick,
    LockedPlugin,
    LockedTable,
)
from builder.oci.assemble import epoch_of
from builder.oci.model import Platform
from builder.oci.placement import parent_dirs, resolve_destination, stale_pyc
from builder.plugins import place_plugins
from builder.reuse import kept_picks
from builder.topology import container_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from builder.asked import Wanted
    from builder.digest import Digest
    from builder.edits import Step
    from builder.image_section import Graft, Source
    from builder.oci.select import Selected
    from builder.oci.tar import TarEntry
    from builder.oci.tree import ImageTree
    from builder.sources import Blobs

_PLUGINS: Final = "VLLM_PLUGINS"
"""The variable by which vLLM loads some plugins only."""


@dataclass(frozen=True, slots=True)
class ReadImage:
    """An image that was read whole: what it is, and its tree."""

    selected: Selected
    tree: ImageTree


class Hybrid:
    """What a manifest makes of a base and its donors, once they were read."""

    def __init__(
        self,
        wanted: Wanted,
        base: ReadImage,
        donors: Mapping[str, ReadImage],
        blobs: Blobs,
        kept: LockedImage | None = None,
    ) -> None:
        """`kept` stands in for the donors, which then are none: the image of an earlier lock."""
        self._wanted = wanted
        self._section = wanted.manifest.image
        self._base = base
        self._donors = donors
        self._blobs = blobs
        self._kept = kept

    def locked(self) -> LockedImage:
        """The image part of the lock, whose image closes.

        Raises ClosureError with everything that would fail in a container, PickError, TableError,
        MissingModuleError, and what find_package and resolve_destination raise;
        NotKeptError when the donors have to be read after all.
        """
        config = self._base.selected.image.config
        place = self._wanted.place("image.base")
        epoch = self._section.epoch
        if epoch is None:
            epoch = epoch_of(config, place=place)
        picks, files = self._picks(), self._files()
        patches, tables = self._edits(picks)
        plugins = place_plugins(self._wanted, self._base.tree, self._root(VLLM).site)
        edits = _Edits(steps_by_target((*patches, *tables)), self._blobs)
        self._require_closed(picks, edits, plugins, files)
        targets = [
            *(item.target for item in picks),
            *(item.target for item in files),
            *edits.targets,
            *(item.target.lstrip("/") for plugin, _ in plugins for item in plugin.written),
        ]
        gone = [path for path in edits.deleted if self._base.tree.get(path) is not None]
        hidden = sorted({*stale_pyc(self._base.tree, targets), *gone})
        dirs = parent_dirs(self._base.tree, (*targets, *hidden), epoch=epoch)
        return LockedImage(
            platform=self._section.platform,
            epoch=epoch,
            base=_locked_base(self._section.base, self._base.selected, dirs),
            donors=self._locked_donors(),
            picks=tuple(_locked_pick(item) for item in picks),
            patches=patches,
            tables=tables,
            plugins=tuple(plugin for plugin, _ in plugins),
            files=tuple(item.locked() for item in files),
            whiteouts=tuple(f"/{path}" for path in hidden),
            changes=self._section.config,
            entrypoint=entrypoint_of(self._base.selected.image, self._section.config),
            workdir=workdir_of(self._base.selected.image, self._section.config),
            vllm_version=self._wanted.manifest.vllm.version,
            accepted=locked_acceptances(self._section),
        )

    def _root(self, package: str) -> PackageRoot:
        return find_package(self._base.tree, package, image="base")

    def _locked_donors(self) -> tuple[LockedDonor, ...]:
        if self._kept is not None:
            return self._kept.donors
        return tuple(
            _locked_donor(name, self._section.donors[name], read.selected)
            for name, read in sorted(self._donors.items())
        )

    def _target(self, graft: Graft, file: str) -> str:
        return resolve_destination(self._base.tree, self._root(graft.package).file(file))

    def _picks(self) -> tuple[Pick, ...]:
        if self._kept is not None:
            return kept_picks(self._section.grafts, self._kept, self._blobs, self._target)
        found: list[Pick] = []
        for index, graft in enumerate(self._section.grafts):
            donor = self._donors[graft.donor].tree
            place = self._wanted.place(f"image.graft[{index}]")
            for item in pick(donor, graft, self._root(graft.package), place=place):
                target = resolve_destination(self._base.tree, item.target)
                found.append(replace(item, target=target))
        return tuple(sorted(found, key=lambda item: item.target))

    def _edits(
        self, picks: tuple[Pick, ...]
    ) -> tuple[tuple[LockedPatch, ...], tuple[LockedTable, ...]]:
        """One record per edit, by file; those of one file follow each other, diffs first."""
        editing = Editing(self._base.tree, {item.target: item for item in picks}, self._blobs)
        patches = editing.patches(read_diffs(self._wanted, self._blobs))
        tables = [
            editing.register(register, self._wanted.place(f"image.register[{index}]"))
            for index, register in enumerate(self._section.registers)
        ]
        return patches, tuple(sorted(tables, key=lambda table: table.target))

    def _files(self) -> tuple[_OwnFile, ...]:
        found = [
            _OwnFile(
                target=resolve_destination(self._base.tree, file.target.lstrip("/")),
                source=file.source,
                mode=int(file.mode, 8),
                size_bytes=self._wanted.own_files[file.source].size_bytes,
                content=self._wanted.own_files[file.source].digest,
            )
            for file in self._section.files
        ]
        return tuple(sorted(found, key=lambda file: file.target))

    def _require_closed(
        self,
        picks: tuple[Pick, ...],
        edits: _Edits,
        plugins: tuple[tuple[LockedPlugin, dict[str, bytes]], ...],
        files: tuple[_OwnFile, ...],
    ) -> None:
        manifest, environments = self._wanted.manifest, self._environments()
        findings = check_closure(
            ClosureInputs(
                base=self._base.tree,
                read=self._blobs.read,
                launch=Launch(
                    entrypoint=entrypoint_of(self._base.selected.image, self._section.config),
                    workdir=workdir_of(self._base.selected.image, self._section.config),
                    paths=tuple(sorted({env.get("PATH", "") for env in environments})),
                    node_script=manifest.serve.node_script,
                    mounts=tuple(mount.target for mount in manifest.container.mounts),
                    platform=Platform.parse(self._section.platform),
                ),
                vllm_version=manifest.vllm.version,
                picks=picks,
                tables=edits.files(patched=False),
                files=(
                    *edits.files(patched=True),
                    *self._plugin_files(plugins),
                    *(
                        OurFile(file.target, file.mode, self._blobs.read(file.content))
                        for file in files
                    ),
                ),
                removed=edits.deleted,
                patched=tuple(item.package for item in self._section.patches if item.package),
                plugins=self._section.plugins,
                plugins_allowed=tuple(
                    sorted({env[_PLUGINS] for env in environments if _PLUGINS in env})
                ),
                registers=self._section.registers,
                architectures=self._wanted.architectures,
                model_type=self._wanted.model_type,
                donors={name: read.tree for name, read in self._donors.items()},
                place=self._wanted.place,
            ),
            self._wanted.verdicts,
        )
        left = unaccepted(
            findings, self._section.accepts, self._wanted.place, with_donors=self._kept is None
        )
        if left:
            raise ClosureError(left)

    def _plugin_files(
        self, plugins: tuple[tuple[LockedPlugin, dict[str, bytes]], ...]
    ) -> Iterator[OurFile]:
        for plugin, made in plugins:
            for target, data in made.items():
                yield OurFile(target.lstrip("/"), 0o644, data)
            for file in plugin.files:
                path = file.target.lstrip("/")
                yield OurFile(path, int(file.mode, 8), self._blobs.read(file.digest))

    def _environments(self) -> list[dict[str, str]]:
        """The environment of each node's container: the image's, then what deploying gives it."""
        own = self._base.selected.image.config.container.get("Env") or ()
        pairs = (item.partition("=") for item in own)
        image = {key: value for key, _, value in pairs} | self._section.config.env
        manifest = self._wanted.manifest
        return [image | container_environment(manifest, node) for node in manifest.nodes]


class _Edits:
    """The files that are edited, with their bytes after it; paths are tree paths."""

    def __init__(self, steps: dict[str, list[Step]], blobs: Blobs) -> None:
        self._steps = {target.lstrip("/"): found for target, found in steps.items()}
        self._after = {path: edited(found, blobs) for path, found in self._steps.items()}
        self.targets = tuple(target.lstrip("/") for target in changed(steps, ()))
        """The files that change, deleted ones too."""
        self.deleted = tuple(path for path, data in self._after.items() if data is None)

    def files(self, *, patched: bool) -> tuple[OurFile, ...]:
        """The files that a diff changes, or those in which nothing but tables is edited."""
        return tuple(
            OurFile(path, int(steps[-1].mode, 8), data)
            for path, steps in self._steps.items()
            if isinstance(steps[0], LockedPatch) == patched
            and (data := self._after[path]) is not None
        )


@dataclass(frozen=True, slots=True)
class _OwnFile:
    """One of our own files; `target` is a tree path."""

    target: str
    source: str
    mode: int
    size_bytes: int
    content: Digest

    def locked(self) -> LockedFile:
        """The file as the lock says it."""
        return LockedFile(
            source=self.source,
            target=f"/{self.target}",
            mode=mode_text(self.mode),
            size_bytes=self.size_bytes,
            digest=self.content,
        )


def _locked_base(source: Source, selected: Selected, dirs: Iterable[TarEntry]) -> LockedBase:
    image = selected.image
    return LockedBase(
        asked=source.source,
        index_digest=selected.index_digest,
        manifest_digest=image.manifest.descriptor.digest,
        config_digest=image.config.digest,
        layers=locked_layers(image),
        dirs=tuple(
            LockedDir(
                path=f"/{item.path}",
                mode=mode_text(item.mode),
                uid=item.uid,
                gid=item.gid,
                mtime=item.mtime,
            )
            for item in sorted(dirs, key=lambda item: item.path)
        ),
    )


def _locked_donor(name: str, source: Source, selected: Selected) -> LockedDonor:
    return LockedDonor(
        name=name,
        asked=source.source,
        index_digest=selected.index_digest,
        manifest_digest=selected.image.manifest.descriptor.digest,
        config_digest=selected.image.config.digest,
    )


def _locked_pick(item: Pick) -> LockedPick:
    return LockedPick(
        donor=item.donor,
        source=f"/{item.source}",
        target=f"/{item.target}",
        layer=item.layer,
        size_bytes=item.size_bytes,
        mode=mode_text(item.mode),
        digest=item.content,
    )
