"""Sizes and digests of the files beside a manifest that it names."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.edges.hashes import Hashes, of
from builder.lock import ModelFile
from builder.read.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping
    from pathlib import Path

    from builder.read.lines import Loc
    from builder.read.parts import Parts


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """What a manifest names in its folder.

    `own_files` by their path from the manifest's folder, `model_files` sorted by their path from
    the model's folder. `problems` tell of what cannot be used, and is absent from both.
    """

    own_files: Mapping[str, ModelFile]
    model_files: tuple[ModelFile, ...]
    problems: tuple[Problem, ...]


def read_local_files(folder: Path, parts: Parts) -> LocalFiles:
    """The files that the valid parts of a manifest name, each read once.

    A large file of the model is not read again while its marks are those that were noted.

    Only regular files count. A symlink is refused, on the way to a file too: it can lead out of the
    repository, and then two checkouts of one commit would differ.
    """
    reader = _Reader(folder)
    model = parts.model.files if parts.model else None
    model_files = () if model is None else reader.below(model, ("model", "files"))
    own = {
        file.source: reader.file(file.source, file.source, ("image", "file", number, "source"))
        for number, file in parts.files.items()
    }
    for number, patch in parts.patches.items():
        if patch.diff not in own:
            own[patch.diff] = reader.file(
                patch.diff, patch.diff, ("image", "patch", number, "diff")
            )
    for number, plugin in parts.plugins.items():
        if plugin.source is not None:
            loc = ("image", "plugin", number, "source")
            own |= reader.modules(plugin.source, loc, known=own)
    return LocalFiles(
        own_files={source: file for source, file in sorted(own.items()) if file is not None},
        model_files=model_files,
        problems=tuple(reader.problems),
    )


_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a regular file",
}
_COMPILED: Final = (".pyc", ".pyo")
_OTHER: Final = "a device, pipe or socket"


def _reason(error: OSError) -> str:
    """What the system says, without the path, which the message has already."""
    return (error.strerror or type(error).__name__).lower()


class _UnusableError(Exception):
    """A path that cannot be used; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Reader:
    """Reads below one folder; paths are relative to it and use `/`."""

    def __init__(self, folder: Path) -> None:
        self.problems: list[Problem] = []
        self._folder = folder
        self._hashes: Hashes | None = None

    def file(self, path: str, name: str, loc: Loc) -> ModelFile | None:
        """The file as `name`; None, and a problem at `loc`, if it cannot be used."""
        try:
            self._require(path, stat.S_IFREG)
            return self._hashed(path, name)
        except _UnusableError as error:
            self._refuse(loc, "a regular file beside the manifest", f"{path}: {error.reason}")
            return None

    def below(self, root: str, loc: Loc) -> tuple[ModelFile, ...]:
        """All files in a folder and its folders, by their path from there, sorted."""
        try:
            self._require(root, stat.S_IFDIR)
            paths = sorted(self._walk(root))
        except _UnusableError as error:
            self._refuse(
                loc, "a folder of regular files beside the manifest", f"{root}: {error.reason}"
            )
            return ()
        if not paths:
            self._refuse(loc, "the model's files", f"{root}: an empty folder")
        with Hashes(self._folder) as self._hashes:
            files = [self.file(path, path.removeprefix(f"{root}/"), loc) for path in paths]
        self._hashes = None
        return tuple(file for file in files if file is not None)

    def modules(self, root: str, loc: Loc, *, known: Container[str]) -> dict[str, ModelFile | None]:
        """All files in a folder, by their path, but for what Python compiled them to."""
        found: dict[str, ModelFile | None] = {}
        try:
            self._require(root, stat.S_IFDIR)
            paths = sorted(path for path in self._walk(root) if not path.endswith(_COMPILED))
        except _UnusableError as error:
            self._refuse(loc, "a folder of modules beside the manifest", f"{root}: {error.reason}")
            return {}
        if not paths:
            self._refuse(loc, "the plugin's modules", f"{root}: no file but compiled ones")
        for path in paths:
            if path not in known:
                found[path] = self.file(path, path, loc)
        return found

    def _walk(self, root: str) -> Iterator[str]:
        """Every path below a folder that is no folder itself."""
        folders = [root]
        while folders:
            folder = folders.pop()
            try:
                entries = list(os.scandir(self._folder / folder))
            except OSError as error:
                raise _UnusableError(_reason(error)) from error
            for entry in entries:
                if not entry.name.isprintable():
                    reason = f"the name {entry.name!a} in it is not printable text"
                    raise _UnusableError(reason)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}/{entry.name}")
                else:
                    yield f"{folder}/{entry.name}"

    def _require(self, path: str, kind: int) -> None:
        """Nothing, if the path leads to this kind of thing (S_IFREG or S_IFDIR) without a link."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            here = "/".join(parts[:end])
            try:
                mode = (self._folder / here).lstat().st_mode
            except OSError as error:
                raise _UnusableError(_reason(error)) from error
            wanted = kind if end == len(parts) else stat.S_IFDIR
            if stat.S_IFMT(mode) != wanted:
                kind_found = _KINDS.get(stat.S_IFMT(mode), _OTHER)
                raise _UnusableError(kind_found if here == path else f"{here} is {kind_found}")

    def _hashed(self, path: str, name: str) -> ModelFile:
        try:
            with (self._folder / path).open("rb") as stream:
                size_bytes, digest = self._hashes.of(path, stream) if self._hashes else of(stream)
        except OSError as error:
            raise _UnusableError(_reason(error)) from error
        return ModelFile(path=name, size_bytes=size_bytes, digest=digest)

    def _refuse(self, loc: Loc, expected: str, found: str) -> None:
        self.problems.append(
            Problem(
                loc,
                "a file that cannot be used",
                expected=expected,
                found=found,
                remedy="put the file there (a copy, no link), or correct the path",
            )
        )
