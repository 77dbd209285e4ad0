"""The verbs of builder/, one function each: they wire the core to disk and sources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from builder.current import current, wanted_of
from builder.differences import lock_differences
from builder.edges.files import read_lock, read_manifest, write_lock
from builder.edges.folder import FolderSources
from builder.edges.inputs import Inputs
from builder.edges.output import output_at, write_output
from builder.edges.own_inputs import refuse_inputs
from builder.edges.store import BlobStore
from builder.edges.vendor import Vendored, vendor_folder
from builder.edges.verdicts import VerdictFolder
from builder.errors import LockError
from builder.labels import image_reference
from builder.lock import all_digests, own_sources
from builder.lock_errors import LockVersionError
from builder.oci.errors import DigestMismatchError
from builder.oci.reference import DOCKER_HUB, ImageReference
from builder.options import push_target
from builder.pinpoint import AssembledBlobs, pinpoint
from builder.pipeline_errors import (
    OutputsDifferError,
    OwnFileChangedError,
    StaleSchemaError,
)
from builder.remade import keep, relabelled, remade
from builder.reports import Built, LockReport
from builder.schema import FILE_NAME, schema_text
from builder.vendor import vendored

if TYPE_CHECKING:
    from pathlib import Path

    from builder.edges.folder import Reach
    from builder.edges.registry.push import Pushed
    from builder.image_section import Source
    from builder.lock import Lock, LockedModel
    from builder.oci.assemble import AssembledImage
    from builder.progress import Progress
    from builder.read.loaded import LoadedManifest
    from builder.sources import Blobs

_LOCAL_KINDS: Final = frozenset({"oci", "archive", "docker"})

STORE: Final = ".sparklock/store"
"""The blob store, beside the manifest. It can be deleted at any time."""

VERDICTS: Final = ".sparklock/verdicts"
"""What the closure check found for images of before; it can be deleted too."""

CHECK: Final = ".sparklock/check"
"""Where both assemblies are kept when `inv build --check` found that they differ."""


def lock(file: Path, progress: Progress, *, reach: Reach | None = None) -> LockReport:
    """Resolve a manifest and write the lock beside it, if its bytes change.

    `reach` is the way to the engines of nodes; a manifest can name images there.
    Raises ManifestError, BuildError when the image cannot be made or does not close, and
    LockVersionError for the lock of a newer sparklock; the lock is then left as it was.
    """
    loaded = read_manifest(file)
    return locked_anew(loaded, progress, reach)


def check_lock(file: Path) -> LockReport:
    """The lock's report if it is right, as far as one can tell here: writes nothing.

    Reads no source: when the store lacks an input, the report says so. Raises StaleLockError when
    the lock does not belong to the manifest and its files, OutputsDifferError when its inputs make
    another image, VendoredDifferError when they are kept in the repository and differ there, or
    what reading the lock raises.
    """
    loaded = read_manifest(file)
    report = current(loaded)
    found = report.lock
    files, folder = list(own_sources(found.image)), vendor_folder(loaded)
    if folder:
        kept = vendored(found)
        folder.require(kept)
        files += [(f"{loaded.manifest.image.vendor}/{path}", one) for path, one in kept.items()]
    inputs = Inputs(store_of(loaded), loaded.folder, files)
    needed = all_digests(found)
    lacking = sum(not inputs.is_sound(digest) for digest in needed)
    if lacking:
        _require_same(loaded, found, relabelled(found))
        return replace(report, lacking=(lacking, len(needed)))
    _assembled(loaded, found, inputs)
    return report


def build(  # noqa: PLR0913 - the task's options, each by name
    file: Path,
    progress: Progress,
    *,
    locked: bool = False,
    output: Path | None = None,
    push: str | None = None,
    check: bool = False,
    reach: Reach | None = None,
) -> Built:
    """Assemble the image, compare it with the lock, and keep its new blobs in the store.

    Without `locked` a missing or stale lock is written first. With `check` another process
    assembles it again in other surroundings, and that is compared with the lock, too. With `output`
    the whole image is also written there, as output_at says; with `push` it is put into that
    repository. Raises LockError, BuildError, ManifestError and OptionError.
    """
    target = output_at(output) if output else None
    repository = None if push is None else push_target(push, option="--push")
    loaded = read_manifest(file)
    refuse_inputs(loaded, target, repository)
    try:
        report = current(loaded)
    except LockError:
        if locked:
            raise
        report = locked_anew(loaded, progress, reach)
    wanted, store = report.lock, store_of(loaded)
    _refill(loaded, wanted, store, progress, reach)
    progress.stage("assemble and compare with the lock")
    assembled = _assembled(loaded, wanted, store)
    keep(assembled, store)
    if check:
        progress.stage("assemble again in other surroundings")
        from builder.edges.again import require_reproducible  # noqa: PLC0415 - seldom asked for

        require_reproducible(wanted, store, loaded.folder / CHECK)
    built = Built(
        loaded=loaded,
        lock=wanted,
        lock_digest=report.digest,
        image=assembled.image,
        store=store,
        base=FolderSources(loaded, store, reach, progress, whole=True).open(
            loaded.manifest.image.base, place=loaded.place("image.base")
        ),
        notes=assembled.notes,
        output=target,
        lock_written=report.written,
        checked=check,
    )
    if target:
        name = image_reference(wanted.name, wanted.outputs.manifest_digest)
        write_output(target, built.image, built.open_blob, name=name, progress=progress)
    if repository:
        built = replace(built, pushed=_pushed(built, repository, progress, reach))
    return built


def _pushed(
    built: Built, target: ImageReference, progress: Progress, reach: Reach | None
) -> Pushed:
    """What it took to get the image into a repository; without a tag it gets the nodes' one."""
    from builder.edges.registry.push import RegistryTarget  # noqa: PLC0415 - as in FolderSources

    progress.stage(f"push to {target.host}/{target.repository}")
    base = built.loaded.manifest.image.base
    # Passed on, and not stored on the way, where that can be.
    sources = FolderSources(built.loaded, built.store, reach, progress, kept=False, whole=True)
    straight = replace(built, base=sources.open(base, place=built.loaded.place("image.base")))
    reference = image_reference(built.lock.name, built.lock.outputs.manifest_digest)
    tag = target.tag or reference.rpartition(":")[2]
    repository = RegistryTarget(target, mount_from=_same_registry(base, target))
    return repository.push(built.image, straight.open_blob, tag, progress)


def _same_registry(base: Source, target: ImageReference) -> str | None:
    """The base's repository, if it is in the registry of the target."""
    if base.source.partition(":")[0] in _LOCAL_KINDS:
        return None
    reference = ImageReference.parse(base.source)
    same = reference.host == target.host or {reference.host, target.host} <= DOCKER_HUB
    return reference.repository if same else None


def schema(root: Path, *, check: bool) -> str:
    """Write the JSON Schema of cluster.toml into a folder, if it is not there; say what was done.

    With `check` nothing is written: raises StaleSchemaError when the file is another.
    """
    path = root / FILE_NAME
    text = schema_text().encode()
    if path.is_file() and path.read_bytes() == text:
        return f"{path} is current"
    if check:
        raise StaleSchemaError(str(path))
    path.write_bytes(text)
    return f"{path} written"


def store_of(loaded: LoadedManifest) -> BlobStore:
    """The blob store that belongs to a manifest."""
    return BlobStore(loaded.folder / STORE)


def store_own_files(loaded: LoadedManifest, store: BlobStore) -> None:
    """Nothing; the store then has the bytes of our own files as they were when they were read.

    Raises OwnFileChangedError, also when the file is gone.
    """
    for source, file in loaded.own_files.items():
        path = loaded.folder / source
        try:
            data = path.read_bytes()
            store.put([data], expected=file.digest)
        except (OSError, DigestMismatchError) as error:
            raise OwnFileChangedError(str(path)) from error


def resolved(
    loaded: LoadedManifest,
    progress: Progress,
    reach: Reach | None,
    before: Lock | None = None,
    model: LockedModel | None = None,
) -> Lock:
    """The lock of a manifest, which is written nowhere; raises what resolving raises.

    `before` is a lock whose donors need not be read again, if they are the same; `model` one whose
    files need not be asked for again.
    """
    # What grafts and judges takes longer to import than a locked image takes to build.
    from builder.hub_model import with_hub_model  # noqa: PLC0415
    from builder.resolve import resolve  # noqa: PLC0415

    store = store_of(loaded)
    store_own_files(loaded, store)
    sources = FolderSources(loaded, store, reach, progress)
    wanted = with_hub_model(wanted_of(loaded), model, progress)
    wanted = replace(wanted, verdicts=VerdictFolder(loaded.folder / VERDICTS))
    return resolve(wanted, sources, store, progress, before)


def locked_anew(loaded: LoadedManifest, progress: Progress, reach: Reach | None) -> LockReport:
    """The manifest resolved, and its lock on disk; a lock that cannot be read is replaced."""
    with store_of(loaded).held():  # until the lock names what was put there
        return _locked_anew(loaded, progress, reach)


def _locked_anew(loaded: LoadedManifest, progress: Progress, reach: Reach | None) -> LockReport:
    old = _old_lock(loaded)
    folder, store = vendor_folder(loaded), store_of(loaded)
    if folder and old:
        folder.offer(vendored(old), store)
    new = resolved(loaded, progress, reach, old, model=old.model if old else None)
    kept = keep_vendored(loaded, new)
    if old is None:
        write_lock(loaded.lock_path, new)
        return LockReport(loaded=loaded, lock=new, new=True, changes=(), vendored=kept)
    changes = lock_differences(old, new)
    if changes:
        write_lock(loaded.lock_path, new)
    return LockReport(loaded=loaded, lock=new, new=False, changes=changes, vendored=kept)


def keep_vendored(loaded: LoadedManifest, lock: Lock) -> Vendored | None:
    """What it took to have in the manifest's vendor folder what the lock needs; None without one.

    The store has it all. Raises NotOurFileError and VendorNotWritableError.
    """
    folder = vendor_folder(loaded)
    return folder.sync(vendored(lock), store_of(loaded)) if folder else None


def _old_lock(loaded: LoadedManifest) -> Lock | None:
    try:
        return read_lock(loaded.lock_path)
    except LockVersionError as error:
        if error.newer:
            raise
    except LockError:
        pass
    return None


def _refill(
    loaded: LoadedManifest,
    lock: Lock,
    store: BlobStore,
    progress: Progress,
    reach: Reach | None,
) -> None:
    """Read the sources again when the store lacks an input of the lock; they must give it again.

    A damaged input counts as lacking: the store is a cache, and mends itself aloud.
    """
    store_own_files(loaded, store)
    if all(store.is_sound(digest) for digest in all_digests(lock)):
        return
    folder = vendor_folder(loaded)
    if folder:
        folder.restock(vendored(lock), store)
        return
    progress.note("the store lacks inputs of the lock: reading the sources again")
    _require_same(loaded, lock, resolved(loaded, progress, reach, model=lock.model))


def _assembled(loaded: LoadedManifest, lock: Lock, blobs: Blobs) -> AssembledImage:
    """The image, once everything that the lock says of it is known to be right."""
    made, assembled = remade(lock, blobs)
    changes = lock_differences(lock, made)
    if changes:
        spot = pinpoint(lock.outputs, blobs, made.outputs, AssembledBlobs(assembled))
        raise OutputsDifferError(str(loaded.lock_path), changes, spot)
    return assembled


def _require_same(loaded: LoadedManifest, lock: Lock, built: Lock) -> None:
    changes = lock_differences(lock, built)
    if changes:
        raise OutputsDifferError(str(loaded.lock_path), changes)
