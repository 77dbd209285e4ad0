"""The manifest and the lock that the checks start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.edges.files import read_lock, read_values
from builder.lockfile import lock_digest
from builder.read.loaded import lock_beside

if TYPE_CHECKING:
    from pathlib import Path

    from builder.digest import Digest
    from builder.lock import Lock
    from builder.manifest import ClusterManifest


@dataclass(frozen=True, slots=True)
class Inputs:
    """A manifest, its folder, and the lock beside it; `lock_digest` is over the lock's bytes."""

    manifest: ClusterManifest
    folder: Path
    lock: Lock
    lock_digest: Digest


def read_inputs(manifest_path: Path) -> Inputs:
    """The inputs of the checks; ManifestError or LockError if they cannot be used.

    That they belong together is known before pytest starts (verify/run.py).
    """
    lock = read_lock(lock_beside(manifest_path))
    return Inputs(
        manifest=read_values(manifest_path),
        folder=manifest_path.parent,
        lock=lock,
        lock_digest=lock_digest(lock),
    )
