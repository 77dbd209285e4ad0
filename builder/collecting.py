"""`inv gc`: what the store has and no lock needs any more goes."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.digest import Digest
from builder.edges.console import size_text
from builder.edges.daemon_kept import KeptImages
from builder.edges.disk import UNFINISHED, abandoned, storage_errors
from builder.edges.files import read_lock
from builder.edges.store import BlobStore
from builder.errors import BuildError
from builder.lock import named_digests
from builder.pipeline import STORE
from builder.read.errors import ManifestNotFoundError
from builder.read.loaded import lock_beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from builder.digest import JsonValue
    from builder.lock import Lock

_BASE: Final = "the base"
_NEEDS: Final = {
    _BASE: "the next time that its layers are needed: lock, --output, --push, a node without it",
}
_NEEDS_DONOR: Final = "the next `inv lock`"


@dataclass(frozen=True, slots=True)
class Heap:
    """So many files of so many bytes."""

    files: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, sizes: Iterable[int]) -> Heap:
        """The heap of files of these sizes."""
        listed = list(sizes)
        return cls(len(listed), sum(listed))

    def text(self) -> str:
        """Such as `3 files, 1.2 GB`."""
        return f"{self.files} file{'' if self.files == 1 else 's'}, {size_text(self.size_bytes)}"

    def as_json(self) -> dict[str, JsonValue]:
        """Both numbers."""
        return {"files": self.files, "bytes": self.size_bytes}


@dataclass(frozen=True, slots=True)
class Collected:
    """What went from the store of one folder, or would have gone (`dry_run`).

    `again` are the bytes of an image's layers that have to be fetched when they are needed again.
    """

    store: Path
    kept: Heap
    removed: Heap
    unfinished: Heap
    again: Mapping[str, int]
    dry_run: bool

    def text(self) -> str:
        """The outcome as lines of plain text."""
        done = "would go" if self.dry_run else "removed"
        lines = [
            f"{self.store}: kept {self.kept.text()}",
            f"  {done:<9} {self.removed.text()}, which no lock here needs",
        ]
        if self.unfinished.files:
            lines.append(f"  {done:<9} {self.unfinished.text()}, which killed runs left")
        for name, size_bytes in self.again.items():
            need = _NEEDS.get(name, _NEEDS_DONOR)
            lines.append(f"  to fetch  {size_text(size_bytes)} of {name} again: {need}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, JsonValue]:
        """The outcome as a JSON object; other places than the store may come beside it."""
        return {
            "dry_run": self.dry_run,
            "store": {
                "kept": self.kept.as_json(),
                "removed": self.removed.as_json(),
                "unfinished": self.unfinished.as_json(),
                "to_fetch_again": dict(self.again),
            },
        }


def collect(
    file: Path, *, everything: bool = False, keep: Iterable[Path] = (), dry_run: bool = False
) -> Collected:
    """Remove from the store beside a manifest what neither its lock nor those of `keep` name.

    What a build or a deployment of these locks needs stays: their inputs and images, and the base's
    layers that were fetched. With `everything` these layers go, too, since the base's source has
    them; picked files stay, for a donor that is gone cannot be asked again. Raises LockError, since
    without a lock nothing is known to be needed, StoreBusyError, and ManifestNotFoundError, since a
    lock is asked for by its manifest.
    """
    if not file.is_file():
        raise ManifestNotFoundError(str(file))
    store = BlobStore(file.parent / STORE)
    with store.alone():
        locks = [read_lock(path) for path in (lock_beside(file), *keep)]
        needed = frozenset[Digest]().union(*map(named_digests, locks))
        needed |= frozenset(KeptImages(store).blobs_of(needed))
        if everything:
            needed -= _base_layers(locks)
        sizes = dict(store.listed())
        gone = {digest: size for digest, size in sizes.items() if digest not in needed}
        left = {path: path.lstat().st_size for path in _unfinished(store, file)}
        again = dict(_to_fetch_again(locks, gone, store))
        if not dry_run:
            _remove(store, gone, left)
    return Collected(
        store=store.root,
        kept=Heap.of(size for digest, size in sizes.items() if digest not in gone),
        removed=Heap.of(gone.values()),
        unfinished=Heap.of(left.values()),
        again=again,
        dry_run=dry_run,
    )


def _base_layers(locks: Iterable[Lock]) -> frozenset[Digest]:
    return frozenset(layer.digest for lock in locks for layer in lock.image.base.layers)


def _unfinished(store: BlobStore, file: Path) -> Iterator[Path]:
    """What killed processes left, in the store and beside the manifest."""
    yield from store.unfinished()
    for path in (file, lock_beside(file)):
        yield from abandoned(path.parent, prefix=f".{path.name}{UNFINISHED}")


def _remove(store: BlobStore, digests: Iterable[Digest], left: Iterable[Path]) -> None:
    for digest in digests:
        store.remove(digest)
    with storage_errors(str(store.root), "remove what killed runs left"):
        for path in left:
            path.unlink(missing_ok=True)


def _to_fetch_again(
    locks: Iterable[Lock], gone: Mapping[Digest, int], store: BlobStore
) -> Iterator[tuple[str, int]]:
    """For every image whose layers go: its name, and their bytes."""
    layers: dict[str, set[Digest]] = {}
    for lock in locks:
        layers.setdefault(_BASE, set()).update(_base_layers([lock]))
        for donor in lock.image.donors:
            found = layers.setdefault(f"donors.{donor.name}", set())
            found.update(_layers_of(donor.manifest_digest, store))
    for name, digests in layers.items():
        size_bytes = sum(gone.get(digest, 0) for digest in digests)
        if size_bytes:
            yield name, size_bytes


def _layers_of(manifest: Digest, store: BlobStore) -> Iterator[Digest]:
    """The layers of a manifest that was fetched once; of any other, nothing of it is here."""
    with suppress(BuildError, ValueError, LookupError, TypeError):
        for layer in json.loads(store.read(manifest))["layers"]:
            yield layer["digest"]
