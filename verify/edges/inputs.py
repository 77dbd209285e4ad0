"""The manifest and the lock that a verification starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.edges.files import read_lock, read_manifest, ssh_config_of
from builder.lockfile import lock_digest, lock_text

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
    """The inputs of a verification; ManifestError or LockError if they cannot be used."""
    loaded = read_manifest(manifest_path)
    ssh_config_of(loaded)  # one error about the file itself, instead of one from every node's ssh
    lock = read_lock(loaded.lock_path)
    return Inputs(
        manifest=loaded.manifest,
        folder=loaded.folder,
        lock=lock,
        lock_digest=lock_digest(lock_text(lock)),
    )
