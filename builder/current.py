"""Whether a lock belongs to its manifest: asked often, so it imports nothing that makes images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.asked import Wanted, as_asked
from builder.checkpoint import checkpoint_in
from builder.differences import lock_differences, staleness
from builder.edges.files import read_lock, read_manifest
from builder.lock import FORMATS
from builder.pipeline_errors import CheckpointConfigError, OtherFormatsError, StaleLockError
from builder.reports import LockReport

if TYPE_CHECKING:
    from pathlib import Path

    from builder.read.loaded import LoadedManifest


def check_lock(file: Path) -> LockReport:
    """The lock's report if it belongs to the manifest and its files; reads no source, no store.

    Raises StaleLockError, or what reading the lock raises.
    """
    return current(read_manifest(file))


def current(loaded: LoadedManifest) -> LockReport:
    """The lock, if it is of these formats and belongs to the manifest and its files."""
    path = loaded.lock_path
    found = read_lock(path)
    if found.formats != FORMATS:
        raise OtherFormatsError(str(path), found.formats)
    asked = as_asked(found, wanted_of(loaded))
    changes = staleness(found, loaded) or lock_differences(found, asked)
    if changes:
        raise StaleLockError(str(path), changes)
    return LockReport(loaded=loaded, lock=found, new=False, changes=())


def wanted_of(loaded: LoadedManifest) -> Wanted:
    """The manifest with what it points to, as resolving takes it."""
    architectures, model_type = _checkpoint(loaded)
    return Wanted(
        manifest=loaded.manifest,
        cluster_digest=loaded.cluster_digest,
        place=loaded.place,
        own_files=loaded.own_files,
        model_files=loaded.model_files,
        architectures=architectures,
        model_type=model_type,
    )


def _checkpoint(loaded: LoadedManifest) -> tuple[tuple[str, ...], str]:
    """The architectures and the model type that the checkpoint's config.json states.

    Nothing for a model of the Hub, whose lock has them; else as checkpoint_in says.
    """
    folder = loaded.manifest.model.files
    if folder is None:
        return (), ""
    path = loaded.folder / folder / "config.json"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointConfigError(str(path), f"{type(error).__name__}: {error}") from error
    return checkpoint_in(data, str(path))
