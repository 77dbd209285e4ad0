"""Keeping in the repository what building needs, so that no donor and no registry is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.edges.files import read_manifest, with_bytes
from builder.edges.manifest_edits import Edit, edited_manifest, write_manifest
from builder.edges.vendor import vendor_folder
from builder.pipeline import locked_anew, store_of

if TYPE_CHECKING:
    from pathlib import Path

    from builder.edges.folder import Reach
    from builder.progress import Progress
    from builder.reports import LockReport


def vendor(
    file: Path, folder: str, progress: Progress, *, reach: Reach | None = None
) -> LockReport:
    """Lock, fill a folder beside the manifest with what a build needs, and name it in the manifest.

    From then on every lock keeps the folder in step. A folder that was named before is emptied of
    our files. Raises ManifestError, LockError, and whatever locking raises.
    """
    loaded = read_manifest(file)
    before, wanted = vendor_folder(loaded), loaded
    if loaded.manifest.image.vendor != folder:
        edit = Edit(("image", "vendor"), folder, after="platform")
        wanted = with_bytes(loaded, edited_manifest(loaded, [edit]))
    report = locked_anew(wanted, progress, reach)
    if wanted is not loaded:
        write_manifest(loaded, wanted.data)
        if before is not None:
            before.sync({}, store_of(loaded))
    return report
