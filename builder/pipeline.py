"""The verbs of builder/, one function each: they wire the core to disk and sources."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.assembly import assemble_locked
from builder.edges.files import read_lock, read_manifest, write_lock
from builder.edges.layout import LayoutSource, write_layout
from builder.edges.store import BlobStore
from builder.errors import LockError
from builder.hybrid import Wanted
from builder.lock import Formats, all_digests
from builder.lockfile import differences, lock_digest, lock_text, staleness
from builder.oci.assemble import CONFIG_FORMAT
from builder.oci.tar import LAYER_FORMAT, write_tar
from builder.pipeline_errors import (
    CheckpointConfigError,
    OtherFormatsError,
    OutputsDifferError,
    StaleLockError,
    UnsupportedSourceError,
)
from builder.reports import Built, LockReport
from builder.resolve import outputs_of, resolve

if TYPE_CHECKING:
    from pathlib import Path

    from builder.edges.files import LoadedManifest
    from builder.lock import Lock
    from builder.manifest import Source
    from builder.oci.assemble import AssembledImage
    from builder.progress import Progress
    from builder.sources import ImageSource

STORE: Final = ".sparklock/store"
"""The blob store, beside the manifest. It can be deleted at any time."""


def lock(file: Path, progress: Progress) -> LockReport:
    """Resolve a manifest and write the lock beside it, if its bytes change.

    Raises ManifestError, and BuildError when the image cannot be made or does not close; the lock
    is then left as it was.
    """
    loaded = read_manifest(file)
    return _write(loaded, _resolved(loaded, progress))


def check_lock(file: Path) -> LockReport:
    """The lock's report if it belongs to the manifest and its files; reads no source.

    Raises StaleLockError, or what reading the lock raises.
    """
    loaded = read_manifest(file)
    found = _current_lock(loaded)
    return LockReport(path=loaded.lock_path, lock=found, new=False, changes=())


def build(
    file: Path, progress: Progress, *, locked: bool = False, output: Path | None = None
) -> Built:
    """Assemble the image, compare it with the lock, and keep its new blobs in the store.

    Without `locked` a missing or stale lock is written first. With `output` the whole image is
    also written there as an OCI layout. Raises LockError, BuildError and ManifestError.
    """
    loaded = read_manifest(file)
    try:
        wanted = _current_lock(loaded)
    except LockError:
        if locked:
            raise
        wanted = _write(loaded, _resolved(loaded, progress)).lock
    store = store_of(loaded)
    _refill(loaded, wanted, store, progress)
    progress.stage("assemble and compare with the lock")
    assembled = assemble_locked(wanted.image, wanted.inputs_digest, store)
    _require_same(loaded, wanted, wanted.model_copy(update={"outputs": outputs_of(assembled)}))
    _keep(assembled, store)
    built = Built(
        loaded=loaded,
        lock=wanted,
        lock_digest=lock_digest(lock_text(wanted)),
        image=assembled.image,
        store=store,
        base=FolderSources(loaded.folder).open(
            loaded.manifest.image.base, place=loaded.place("image.base")
        ),
        notes=assembled.notes,
        output=output,
    )
    if output:
        progress.stage(f"write {output}")
        write_layout(output, built.image, built.open_blob)
    return built


@dataclass(frozen=True, slots=True)
class FolderSources:
    """Sources as a manifest names them, relative to its folder."""

    folder: Path

    def open(self, source: Source, *, place: str) -> ImageSource:
        """The source; UnsupportedSourceError if it is not an OCI layout."""
        kind, _, name = source.source.partition(":")
        if kind != "oci":
            raise UnsupportedSourceError(place, source.source)
        return LayoutSource(self.folder / name)


def store_of(loaded: LoadedManifest) -> BlobStore:
    """The blob store that belongs to a manifest."""
    return BlobStore(loaded.folder / STORE)


def wanted_of(loaded: LoadedManifest) -> Wanted:
    """The manifest with what it points to, as resolving takes it."""
    return Wanted(
        manifest=loaded.manifest,
        cluster_digest=loaded.cluster_digest,
        place=loaded.place,
        own_files=loaded.own_files,
        model_files=loaded.model_files,
        architectures=_architectures(loaded),
    )


def _architectures(loaded: LoadedManifest) -> tuple[str, ...]:
    """The architectures that the checkpoint's config.json states; none for a model of the Hub."""
    folder = loaded.manifest.model.files
    if folder is None:
        return ()
    path = loaded.folder / folder / "config.json"
    try:
        document = json.loads(path.read_bytes())
        found = document["architectures"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CheckpointConfigError(str(path), f"{type(error).__name__}: {error}") from error
    if not (isinstance(found, list) and found and all(isinstance(item, str) for item in found)):
        raise CheckpointConfigError(str(path), f"architectures = {found!r}")
    return tuple(found)


def _resolved(loaded: LoadedManifest, progress: Progress) -> Lock:
    store = store_of(loaded)
    _store_own_files(loaded, store)
    return resolve(wanted_of(loaded), FolderSources(loaded.folder), store, progress)


def _store_own_files(loaded: LoadedManifest, store: BlobStore) -> None:
    for source, file in loaded.own_files.items():
        if not store.has(file.digest):
            store.put([(loaded.folder / source).read_bytes()], expected=file.digest)


def _write(loaded: LoadedManifest, lock: Lock) -> LockReport:
    try:
        old = read_lock(loaded.lock_path)
    except LockError:
        write_lock(loaded.lock_path, lock)
        return LockReport(path=loaded.lock_path, lock=lock, new=True, changes=())
    changes = differences(old.model_dump(mode="json"), lock.model_dump(mode="json"))
    if changes:
        write_lock(loaded.lock_path, lock)
    return LockReport(path=loaded.lock_path, lock=lock, new=False, changes=changes)


def _current_lock(loaded: LoadedManifest) -> Lock:
    found = read_lock(loaded.lock_path)
    if found.formats != Formats(layer=LAYER_FORMAT, config=CONFIG_FORMAT):
        raise OtherFormatsError(str(loaded.lock_path), found.formats)
    changes = staleness(found, loaded)
    if changes:
        raise StaleLockError(str(loaded.lock_path), changes)
    return found


def _refill(loaded: LoadedManifest, lock: Lock, store: BlobStore, progress: Progress) -> None:
    """Read the sources again when the store lacks an input of the lock; they must give it again."""
    _store_own_files(loaded, store)
    if all(store.has(digest) for digest in all_digests(lock)):
        return
    progress.note("the store lacks inputs of the lock: reading the sources again")
    _require_same(loaded, lock, _resolved(loaded, progress))


def _require_same(loaded: LoadedManifest, lock: Lock, built: Lock) -> None:
    changes = differences(lock.model_dump(mode="json"), built.model_dump(mode="json"))
    if changes:
        raise OutputsDifferError(str(loaded.lock_path), changes)


def _keep(assembled: AssembledImage, store: BlobStore) -> None:
    image = assembled.image
    for own in assembled.own:
        digest = own.layer.descriptor.digest
        if not store.has(digest):
            store.put(write_tar(own.entries), expected=digest)
    store.put([image.config.raw], expected=image.config.digest)
    store.put([image.manifest.raw], expected=image.manifest.descriptor.digest)
