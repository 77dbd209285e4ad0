"""Diffs and tables applied to the files of a base and of donors, each step on the one before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from builder.edits import edit, patch
from builder.graft.packages import find_package
from builder.graft.patch import parse_diff, paths_in
from builder.graft.patch_errors import DiffOutsideError, PatchTargetExistsError
from builder.graft.table_errors import MissingModuleError
from builder.lock import LockedPatch, LockedTable
from builder.oci.placement import resolve_destination
from builder.oci.tree import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from builder.asked import Wanted
    from builder.digest import Digest
    from builder.graft.patch import FilePatch
    from builder.graft.pick import Pick
    from builder.image_section import Patch, Register
    from builder.oci.tree import Entry, ImageTree
    from builder.sources import Blobs


@dataclass(frozen=True, slots=True)
class WantedDiff:
    """A diff of the manifest, read: its own digest, and its parts by their path.

    Each path starts at the folder that the manifest's `package` or `root` means.
    """

    asked: Patch
    digest: Digest
    parts: Mapping[str, FilePatch]


def read_diffs(wanted: Wanted, blobs: Blobs) -> tuple[WantedDiff, ...]:
    """The diffs of the manifest in its order, before any image is read.

    Raises the errors of builder/graft/patch_errors.py whose names begin with Diff.
    """
    found = []
    for asked in wanted.manifest.image.patches:
        digest = wanted.own_files[asked.diff].digest
        files = parse_diff(blobs.read(digest), place=asked.diff)
        parts = paths_in(files, place=asked.diff, strip=asked.strip)
        for path, part in parts.items():
            if asked.package and not path.startswith(f"{asked.package}/"):
                raise DiffOutsideError(
                    place=f"{asked.diff}:{part.number}", path=path, package=asked.package
                )
        found.append(WantedDiff(asked, digest, parts))
    return tuple(found)


def patched_paths(diffs: Iterable[WantedDiff]) -> frozenset[str]:
    """How the paths end of the files that diffs change."""
    return frozenset(path for diff in diffs for path in diff.parts)


@dataclass(slots=True)
class _File:
    """A file between two steps; `data` is None when there is none."""

    mode: int
    data: bytes | None


@dataclass(slots=True)
class Editing:
    """All edits of a manifest, diffs before tables. A grafted file is edited as the donor has it.

    Paths are tree paths.
    """

    tree: ImageTree
    picks: Mapping[str, Pick]
    blobs: Blobs
    _files: dict[str, _File] = field(default_factory=dict)

    def patches(self, diffs: Sequence[WantedDiff]) -> tuple[LockedPatch, ...]:
        """The record of each part of each diff, by target; raises what apply_patch raises."""
        found = [
            self._patch(diff, path, part) for diff in diffs for path, part in diff.parts.items()
        ]
        return tuple(sorted(found, key=lambda step: step.target))

    def register(self, register: Register, place: str) -> LockedTable:
        """The record of a table's edit; `place` is where the manifest asks for it.

        Raises MissingModuleError or what edit_table raises.
        """
        root = find_package(self.tree, register.package, image="base")
        path = self._path(root.file(register.file))
        file = self._file(path)
        if file.data is None:
            raise MissingModuleError(place, path, self._found(path))
        step, data = edit(
            file.data,
            register.entries,
            target=f"/{path}",
            table=register.table,
            mode=mode_text(file.mode),
        )
        self._files[path] = replace(file, data=data)
        return step

    def _patch(self, diff: WantedDiff, name: str, part: FilePatch) -> LockedPatch:
        path = self._path(self._start(diff.asked) + name)
        file = self._file(path)
        if part.kind == "new" and file.data is None and self._is_there(path):
            place = f"{diff.asked.diff}:{part.number}"
            raise PatchTargetExistsError(place=place, target=f"image: /{path}")
        like = LockedPatch(
            diff=diff.asked.diff,
            digest=diff.digest,
            path=part.path,
            target=f"/{path}",
            mode=mode_text(file.mode),
            before=None,
            after=None,
        )
        step, data = patch(part, file.data, like=like)
        self._files[path] = _File(int(step.mode, 8), data)
        return step

    def _start(self, asked: Patch) -> str:
        """The tree path where the paths of a diff start, with a slash at the end; "" is the root.

        The paths of a package's diff begin with its name, so they start at its site folder.
        """
        if asked.package is not None:
            return f"{find_package(self.tree, asked.package, image='base').site}/"
        root = (asked.root or "/").strip("/")
        return f"{root}/" if root else ""

    def _path(self, asked: str) -> str:
        """Where a file really is: grafted or edited as asked, else behind the base's links."""
        path = resolve_destination(self.tree, asked)
        return path if path in self.picks or path in self._files else self.tree.resolve(path)

    def _file(self, path: str) -> _File:
        """A file before its next step.

        It will be root's, so its mode is normal, whatever the base's owner kept to himself.
        """
        if path in self._files:
            return self._files[path]
        if path in self.picks:
            return _File(self.picks[path].mode, self.blobs.read(self.picks[path].content))
        entry = self.tree.get(path)
        if entry is None or entry.kind is not Kind.FILE or entry.content is None:
            return _File(0o644, None)
        return _File(0o755 if entry.mode & 0o111 else 0o644, self.blobs.read(entry.content))

    def _is_there(self, path: str) -> bool:
        return path not in self._files and self.tree.get(path) is not None

    def _found(self, path: str) -> str:
        """What is in the place of a module that is not there."""
        return "a file that a diff deletes" if path in self._files else _kind(self.tree.get(path))


def _kind(entry: Entry | None) -> str:
    """What an entry is; its folders' and its own links were followed."""
    if entry is None:
        return "nothing of that name"
    return "a file outside of the package" if entry.kind is Kind.FILE else "a device or pipe"


def mode_text(mode: int) -> str:
    """A mode as the lock writes it."""
    return f"{mode & 0o7777:04o}"
