"""The manifest and the lock that a verification starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.edges.files import read_lock, read_manifest
from builder.lockfile import lock_digest, lock_text

if TYPE_CHECKING:
    from pathlib import Path

    from builder.digest import Digest
    from builder.loaded import LoadedManifest
    from builder.lock import Lock
    from builder.manifest import ClusterManifest


@dataclass(frozen=True, slots=True)
class Inputs:
    """A manifest as read, and the lock beside it; `lock_digest` is over the lock's bytes."""

    loaded: LoadedManifest
    lock: Lock
    lock_digest: Digest

    @property
    def manifest(self) -> ClusterManifest:
        """The manifest's values."""
        return self.loaded.manifest

    @property
    def folder(self) -> Path:
        """The manifest's folder."""
        return self.loaded.folder


def read_inputs(manifest_path: Path) -> Inputs:
    """The inputs of a verification; ManifestError or LockError if they cannot be used."""
    loaded = read_manifest(manifest_path)
    lock = read_lock(loaded.lock_path)
    return Inputs(
        loaded=loaded,
        lock=lock,
        lock_digest=lock_digest(lock_text(lock)),
    )
