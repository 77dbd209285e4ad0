"""One input moved to what its source has now, and nothing else: the pin, the lock, both or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from builder.current import current
from builder.differences import differences, lock_differences
from builder.edges.files import read_manifest, with_bytes, write_lock
from builder.edges.manifest_edits import edited_manifest, write_manifest
from builder.inputs import BASE, DONORS, MODEL, input_named
from builder.lockfile import lock_text
from builder.pinning import pin_now
from builder.pipeline import keep_vendored, resolved, store_of
from builder.pipeline_errors import OtherInputMovedError, StaleLockError

if TYPE_CHECKING:
    from pathlib import Path

    from builder.digest import JsonValue
    from builder.edges.folder import Reach
    from builder.lock import Lock
    from builder.pinning import Pin
    from builder.progress import Progress
    from builder.read.loaded import LoadedManifest
    from builder.reports import LockReport


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What `inv lock --update` did."""

    pin: Pin
    lock: LockReport

    def text(self) -> str:
        """The pin's move, then what changed in the lock by it, as lines of plain text."""
        return f"{self.pin.text()}\n{self.lock.text()}"

    def as_json(self) -> JsonValue:
        """The outcome as a JSON object."""
        return {"pin": self.pin.as_json(), "lock": self.lock.as_json()}


def update(
    file: Path, name: str, progress: Progress, *, reach: Reach | None = None
) -> UpdateReport:
    """Move one input to what its source has now: pin and lock are both written, or neither.

    Raises LockError when the lock is not that of the manifest before (then more than the one input
    would move), OtherInputMovedError, and whatever pinning and locking raise.
    """
    loaded = read_manifest(file)
    name = input_named(name, loaded.manifest, place=loaded.name)
    try:
        before = current(loaded)
    except StaleLockError as error:
        raise replace(error, moving=name) from None
    pin = pin_now(loaded, name, progress, reach)
    if not pin.moves:
        return UpdateReport(pin, before)
    data = edited_manifest(loaded, [pin.edit()])
    with store_of(loaded).held():  # until the lock names what was put there
        locked = before.lock.model  # its list is asked for anew if the model is what moves
        after = resolved(with_bytes(loaded, data), progress, reach, None, locked)
        others = differences(inputs_beside(name, before.lock), inputs_beside(name, after))
        if others:
            raise OtherInputMovedError(str(loaded.lock_path), name, others)
        vendored = keep_vendored(loaded, after)
        _write_both(loaded, data, after)
    changes = lock_differences(before.lock, after)
    return UpdateReport(pin, replace(before, lock=after, changes=changes, vendored=vendored))


def inputs_beside(name: str, lock: Lock) -> JsonValue:
    """All that a lock says of the other inputs; what follows from several is left out."""
    image = lock.image
    base = image.base.model_dump(mode="json", exclude={"dirs"})
    donors = [donor for donor in image.donors if name != f"{DONORS}{donor.name}"]
    picks = [pick for pick in image.picks if name != f"{DONORS}{pick.donor}"]
    return {
        "base": {} if name == BASE else base,
        "donors": [donor.model_dump(mode="json") for donor in donors],
        "picks": [pick.model_dump(mode="json", exclude={"target"}) for pick in picks],
        "files": [file.model_dump(mode="json", exclude={"target"}) for file in image.files],
        "model": {} if name == MODEL else lock.model.model_dump(mode="json"),
        "nodes": [node.model_dump(mode="json") for node in lock.nodes],
    }


def _write_both(loaded: LoadedManifest, data: bytes, lock: Lock) -> None:
    """The manifest, then its lock; when that fails, the manifest is again as it was.

    Killed in between, the lock is stale: that is told next time, and `inv lock` finishes the move.
    """
    write_manifest(loaded, data)
    try:
        write_lock(loaded.lock_path, lock)
    except BaseException:
        if not _is_written(loaded.lock_path, lock):
            write_manifest(replace(loaded, data=data), loaded.data)
        raise


def _is_written(path: Path, lock: Lock) -> bool:
    try:
        return path.read_bytes() == lock_text(lock)
    except OSError:
        return False
