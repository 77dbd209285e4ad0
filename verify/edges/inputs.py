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
    """A manifest, its folder, and a lock; `lock_digest` is over the lock's bytes."""

    manifest: ClusterManifest
    folder: Path
    lock: Lock
    lock_digest: Digest


def read_inputs(manifest_path: Path, against: Path | None = None) -> Inputs:
    """The inputs of the checks; ManifestError or LockError if they cannot be used.

    The lock is the one beside the manifest, known to belong to it before pytest starts
    (verify/run.py), or `against`, which need not belong to it.
    """
    lock = read_lock(against or lock_beside(manifest_path))
    return Inputs(
        manifest=read_values(manifest_path),
        folder=manifest_path.parent,
        lock=lock,
        lock_digest=lock_digest(lock),
    )
