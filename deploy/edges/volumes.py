"""The compile caches of one node: volumes of its engine, labelled with their cluster."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING, Final

from builder import labels
from builder.topology import CACHE_FOLDERS, CACHE_ROOT
from deploy.node_errors import EngineConflictError, EngineNotFoundError

if TYPE_CHECKING:
    from deploy.edges.engine import Engine

ANYBODY: Final = 0o1777
"""Whoever an image runs as writes there; the volume itself belongs to root."""


def make_volume(engine: Engine, cluster: str, name: str) -> None:
    """Make a volume for caches; nothing if it is there."""
    own = {labels.CLUSTER: cluster, labels.CACHE: name}
    engine.ask(f"make volume {name}", lambda api: api.create_volume(name, labels=own))


def open_folders(engine: Engine, container: str) -> None:
    """Make the folders of the caches in the volume of a container that was created."""
    archive = _folders()
    call = f"make the folders for caches of {container}"
    engine.ask(call, lambda api: api.put_archive(container, CACHE_ROOT, archive))


def remove_cache(engine: Engine, name: str) -> bool:
    """Remove a cache; False if a container has it."""
    try:
        engine.ask(f"remove volume {name}", lambda api: api.remove_volume(name))
    except EngineConflictError:
        return False
    except EngineNotFoundError:
        return True
    return True


def _folders() -> bytes:
    """An archive of empty folders that anybody may write to."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in CACHE_FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, ANYBODY
            archive.addfile(folder)
    return buffer.getvalue()
