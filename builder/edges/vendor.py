"""The folder of vendored files on disk; builder/vendor.py says which they are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.digest import Hasher, digest_bytes
from builder.edges.disk import chunks_of, write_whole
from builder.edges.vendor_errors import (
    NotOurFileError,
    VendoredDifferError,
    VendorNotWritableError,
    VendorProblem,
)
from builder.vendor import HELPERS, SUMS, parse_sums, sums_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from builder.digest import Digest, JsonValue
    from builder.edges.store import BlobStore
    from builder.read.loaded import LoadedManifest
    from builder.sources import Blobs

NOTHING: Final = "no such file"


@dataclass(frozen=True, slots=True)
class Vendored:
    """What bringing a folder in step did, by paths in it; `left` were changed by somebody else."""

    folder: str
    count: int
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The outcome as lines of plain text."""
        told = {
            "written": self.written,
            "removed": self.removed,
            "not wanted, but changed by somebody else: left alone": self.left,
        }
        changes = [f"{path}: {what}" for what, paths in told.items() for path in paths]
        head = f"  {self.folder}: {self.count} files" + ("" if changes else ", as they were")
        return [head, *(f"  {self.folder}/{change}" for change in changes)]

    def as_json(self) -> JsonValue:
        """The outcome as a JSON object."""
        return {
            "folder": self.folder,
            "count": self.count,
            "written": list(self.written),
            "removed": list(self.removed),
            "left": list(self.left),
        }


class VendorFolder:
    """A folder beside the manifest with files of ours; what others put there is left alone.

    No link in it is followed, so that nothing outside is written, or taken for a part of it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def sync(self, files: Mapping[str, Digest], blobs: Blobs) -> Vendored:
        """Write what is missing, remove of ours what is not wanted, then write the list.

        Without `files` nothing of ours stays. Raises NotOurFileError before anything is written,
        and VendorNotWritableError.
        """
        listed, wanted = self._listed(), _with_helpers(files)
        stale = [path for path, digest in wanted.items() if self._digest(path) != digest]
        unwanted = {path: digest for path, digest in listed.items() if path not in wanted}
        try:
            self._root.exists()  # what nobody can look at, nobody can write to
            self._refuse_others(stale, {*listed, SUMS})
            self._refuse_others([SUMS], {SUMS})
            for path in stale:
                self._write(path, [HELPERS[path]] if path in HELPERS else blobs.chunks(files[path]))
            removed = tuple(path for path, one in unwanted.items() if self._removed(path, one))
            self._write_list(wanted)
        except OSError as error:
            raise VendorNotWritableError(str(self._root), error.strerror or str(error)) from error
        left = tuple(path for path in unwanted if self._found(path) != NOTHING)
        return Vendored(str(self._root), len(files), tuple(stale), removed, left)

    def require(self, files: Mapping[str, Digest]) -> None:
        """Nothing, if the folder has just these files of ours; VendoredDifferError."""
        wanted = _with_helpers(files)
        problems = self._problems(wanted)
        if not problems and not self._lists(wanted):
            problems = [VendorProblem(SUMS, digest_bytes(sums_text(wanted)), "a list of others")]
        if problems:
            raise VendoredDifferError(str(self._root), tuple(problems))

    def restock(self, files: Mapping[str, Digest], store: BlobStore) -> None:
        """The store then has all of these; VendoredDifferError for what neither place has."""
        lacking = {path: digest for path, digest in files.items() if not store.is_sound(digest)}
        problems = self._problems(lacking)
        if problems:
            raise VendoredDifferError(str(self._root), tuple(problems))
        self.offer(lacking, store)

    def offer(self, files: Mapping[str, Digest], store: BlobStore) -> None:
        """The store then has those of these that are here and sound."""
        for path, digest in files.items():
            if not store.is_sound(digest) and self._digest(path) == digest:
                store.put([(self._root / path).read_bytes()], expected=digest)

    def _problems(self, files: Mapping[str, Digest]) -> list[VendorProblem]:
        return [
            VendorProblem(path, digest, self._found(path))
            for path, digest in files.items()
            if self._digest(path) != digest
        ]

    def _lists(self, wanted: Mapping[str, Digest]) -> bool:
        """Whether the list is that of these files, to the byte."""
        return self._digest(SUMS) == digest_bytes(sums_text(wanted))

    def _listed(self) -> dict[str, Digest]:
        """What the list says; nothing, if it is no regular file of the folder."""
        if self._digest(SUMS) is None:
            return {}
        try:
            return parse_sums((self._root / SUMS).read_bytes())
        except OSError:
            return {}

    def _is_led_away(self, path: str) -> bool:
        """Whether the path, a folder above it or the root is a link."""
        place = self._root / path
        above = list(place.parents)[: len(path.split("/"))]
        return any(item.is_symlink() for item in (place, *above))

    def _digest(self, path: str) -> Digest | None:
        """The digest of a regular file that no link leads to; None for anything else."""
        place = self._root / path
        hasher = Hasher()
        try:
            if self._is_led_away(path) or not place.is_file():
                return None
            with place.open("rb") as file:
                for chunk in chunks_of(file):
                    hasher.update(chunk)
        except OSError:
            return None
        return hasher.digest()

    def _found(self, path: str) -> str:
        """What stands at a path, for people."""
        try:
            if self._is_led_away(path):
                return "a symbolic link"
            if not (self._root / path).exists():
                return NOTHING
        except OSError as error:
            return error.strerror or str(error)
        return self._digest(path) or "no readable file"

    def _refuse_others(self, paths: Iterable[str], ours: set[str]) -> None:
        """Nothing, if each of these is ours to write: not there, or a file that we wrote before."""
        found = {path: self._found(path) for path in paths}
        others = tuple(
            path
            for path, what in found.items()
            if what != NOTHING and not (path in ours and self._digest(path))
        )
        if others:
            raise NotOurFileError(str(self._root), others)

    def _write(self, path: str, chunks: Iterable[bytes]) -> None:
        place = self._root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, chunks)

    def _write_list(self, wanted: Mapping[str, Digest]) -> None:
        """The list, if it is another; where nothing of ours is left, there is none."""
        if not wanted:
            (self._root / SUMS).unlink(missing_ok=True)
            _prune(self._root)
        elif not self._lists(wanted):
            self._write(SUMS, [sums_text(wanted)])

    def _removed(self, path: str, digest: Digest) -> bool:
        """Whether a file of ours is gone by this; one that somebody changed stays."""
        if self._digest(path) != digest:
            return False
        place = self._root / path
        place.unlink()
        for folder in list(place.parents)[: path.count("/")]:
            _prune(folder)
        return True


def vendor_folder(loaded: LoadedManifest) -> VendorFolder | None:
    """The folder that the manifest names; None if it names none."""
    name = loaded.manifest.image.vendor
    return None if name is None else VendorFolder(loaded.folder / name)


def _with_helpers(files: Mapping[str, Digest]) -> dict[str, Digest]:
    """The files, and beside any of them those that tell git how to treat them."""
    helpers = {path: digest_bytes(data) for path, data in HELPERS.items()}
    return {**files, **helpers} if files else {}


def _prune(folder: Path) -> None:
    """The folder is gone, if it is empty."""
    with suppress(OSError):
        folder.rmdir()
