"""The image part of a lock: what is picked, edited, added and hidden, proven to close."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from builder.assembly import (
    edit,
    edited,
    edited_modules,
    entrypoint_of,
    locked_layers,
    steps_by_target,
    workdir_of,
)
from builder.graft.closure import ClosureInputs, OurFile, check_closure
from builder.graft.commands import Launch
from builder.graft.errors import ClosureError
from builder.graft.packages import PackageRoot, find_package
from builder.graft.pick import Pick, pick
from builder.graft.table_errors import MissingModuleError
from builder.lock import (
    LockedBase,
    LockedDir,
    LockedDonor,
    LockedFile,
    LockedImage,
    LockedPick,
    LockedTable,
)
from builder.oci.assemble import epoch_of
from builder.oci.model import Platform
from builder.oci.placement import parent_dirs, resolve_destination, stale_pyc
from builder.oci.tree import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from builder.asked import Wanted
    from builder.digest import Digest
    from builder.manifest import Register, Source
    from builder.oci.select import Selected
    from builder.oci.tar import TarEntry
    from builder.oci.tree import Entry, ImageTree
    from builder.sources import Blobs


@dataclass(frozen=True, slots=True)
class ReadImage:
    """An image that was read whole: what it is, and its tree."""

    selected: Selected
    tree: ImageTree


class Hybrid:
    """What a manifest makes of a base and its donors, once they were read."""

    def __init__(
        self, wanted: Wanted, base: ReadImage, donors: Mapping[str, ReadImage], blobs: Blobs
    ) -> None:
        self._wanted = wanted
        self._section = wanted.manifest.image
        self._base = base
        self._donors = donors
        self._blobs = blobs

    def locked(self) -> LockedImage:
        """The image part of the lock, whose image closes.

        Raises ClosureError with everything that would fail in a container, PickError, TableError,
        MissingModuleError, and what find_package and resolve_destination raise.
        """
        config = self._base.selected.image.config
        place = self._wanted.place("image.base")
        epoch = self._section.epoch
        if epoch is None:
            epoch = epoch_of(config, place=place)
        picks, files = self._picks(), self._files()
        tables = self._tables(picks)
        self._require_closed(picks, tables, files)
        targets = [
            *(item.target for item in picks),
            *(item.target for item in files),
            *(target.lstrip("/") for target, _ in edited_modules(tables, ())),
        ]
        hidden = stale_pyc(self._base.tree, targets)
        dirs = parent_dirs(self._base.tree, (*targets, *hidden), epoch=epoch)
        return LockedImage(
            platform=self._section.platform,
            epoch=epoch,
            base=_locked_base(self._section.base, self._base.selected, dirs),
            donors=tuple(
                _locked_donor(name, self._section.donors[name], read.selected)
                for name, read in sorted(self._donors.items())
            ),
            picks=tuple(_locked_pick(item) for item in picks),
            tables=tables,
            files=tuple(item.locked() for item in files),
            whiteouts=tuple(f"/{path}" for path in hidden),
            changes=self._section.config,
            entrypoint=entrypoint_of(self._base.selected.image, self._section.config),
            workdir=workdir_of(self._base.selected.image, self._section.config),
            vllm_version=self._wanted.manifest.vllm.version,
        )

    def _root(self, package: str) -> PackageRoot:
        return find_package(self._base.tree, package, image="base")

    def _picks(self) -> tuple[Pick, ...]:
        found: list[Pick] = []
        for index, graft in enumerate(self._section.grafts):
            donor = self._donors[graft.donor].tree
            place = self._wanted.place(f"image.graft[{index}]")
            for item in pick(donor, graft, self._root(graft.package), place=place):
                target = resolve_destination(self._base.tree, item.target)
                found.append(replace(item, target=target))
        return tuple(sorted(found, key=lambda item: item.target))

    def _tables(self, picks: tuple[Pick, ...]) -> tuple[LockedTable, ...]:
        """One record per edit; edits of one module follow each other, each on the one before.

        A module that is grafted too is edited as the donor has it.
        """
        grafted = {item.target: item for item in picks}
        data: dict[str, bytes] = {}
        found: list[LockedTable] = []
        for index, register in enumerate(self._section.registers):
            place = self._wanted.place(f"image.register[{index}]")
            path, mode, content = self._module(register, grafted, place)
            before = data[path] if path in data else self._blobs.read(content)
            step, data[path] = edit(
                before,
                register.entries,
                target=f"/{path}",
                table=register.table,
                mode=_mode(mode),
            )
            found.append(step)
        return tuple(sorted(found, key=lambda table: table.target))

    def _module(
        self, register: Register, grafted: Mapping[str, Pick], place: str
    ) -> tuple[str, int, Digest]:
        """Tree path, mode and content of a module before its edits: grafted, else the base's.

        It will be root's, so its mode is normal, whatever the base's owner kept to himself.
        """
        asked = resolve_destination(
            self._base.tree, self._root(register.package).file(register.file)
        )
        path = asked if asked in grafted else self._base.tree.resolve(asked)
        if path in grafted:
            return path, grafted[path].mode, grafted[path].content
        entry = self._base.tree.get(path)
        if entry is None or entry.kind is not Kind.FILE or entry.content is None:
            raise MissingModuleError(place, path, _found(entry))
        return path, 0o755 if entry.mode & 0o111 else 0o644, entry.content

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
        tables: tuple[LockedTable, ...],
        files: tuple[_OwnFile, ...],
    ) -> None:
        manifest = self._wanted.manifest
        modules = {
            target: (int(steps[0].mode, 8), edited(steps, self._blobs))
            for target, steps in steps_by_target(tables)
        }
        findings = check_closure(
            ClosureInputs(
                base=self._base.tree,
                read=self._blobs.read,
                launch=Launch(
                    entrypoint=entrypoint_of(self._base.selected.image, self._section.config),
                    workdir=workdir_of(self._base.selected.image, self._section.config),
                    path=self._environment().get("PATH", ""),
                    node_script=manifest.serve.node_script,
                    mounts=tuple(mount.target for mount in manifest.container.mounts),
                    platform=Platform.parse(self._section.platform),
                ),
                vllm_version=manifest.vllm.version,
                picks=picks,
                tables=tuple(
                    OurFile(target.lstrip("/"), mode, data)
                    for target, (mode, data) in modules.items()
                ),
                files=tuple(
                    OurFile(file.target, file.mode, self._blobs.read(file.content))
                    for file in files
                ),
                registers=self._section.registers,
                architectures=self._wanted.architectures,
                donors={name: read.tree for name, read in self._donors.items()},
                place=self._wanted.place,
            )
        )
        if findings:
            raise ClosureError(findings)

    def _environment(self) -> dict[str, str]:
        own = self._base.selected.image.config.container.get("Env") or ()
        pairs = (item.partition("=") for item in own)
        return {key: value for key, _, value in pairs} | self._section.config.env


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
            mode=_mode(self.mode),
            size_bytes=self.size_bytes,
            digest=self.content,
        )


def _found(entry: Entry | None) -> str:
    """What is in the place of a module; its folders' and its own links were followed."""
    if entry is None:
        return "nothing of that name"
    return "a file outside of the package" if entry.kind is Kind.FILE else "a device or pipe"


def _mode(mode: int) -> str:
    return f"{mode & 0o7777:04o}"


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
                mode=_mode(item.mode),
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
        mode=_mode(item.mode),
        digest=item.content,
    )
