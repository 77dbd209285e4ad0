"""Who uses a folder now: many at once, or one alone. The kernel knows it, and forgets the dead.

The lock is flock(2) on the folder itself. One process is one user, however many objects it has.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING

from builder.oci.errors import StoreBusyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_lock = threading.Lock()
_held: weakref.WeakValueDictionary[tuple[int, int], Use] = weakref.WeakValueDictionary()


class Use:
    """The use of one folder by this process; it ends when nothing refers to it any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @contextmanager
    def alone(self, place: str) -> Iterator[None]:
        """Nobody else uses the folder meanwhile; StoreBusyError if somebody does already."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            _share(self._descriptor)  # a lock that could not be turned into another is lost
            raise StoreBusyError(place) from error
        try:
            yield
        finally:
            _share(self._descriptor)


def use(folder: Path, *, wait: bool = True) -> Use | None:
    """The use of a folder, begun now or before; None if there is no such folder.

    While somebody has it alone, which is as long as removing files takes, this waits; or raises
    StoreBusyError.
    """
    with _lock:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        found = os.fstat(descriptor)
        key = (found.st_dev, found.st_ino)
        held = _held.get(key)
        if held is not None:
            os.close(descriptor)
            return held
        try:
            _share(descriptor, wait=wait)
        except BlockingIOError as error:
            os.close(descriptor)
            raise StoreBusyError(str(folder)) from error
        held = _held[key] = Use(descriptor)
        return held


def _share(descriptor: int, *, wait: bool = True) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        return  # on a file system without locks nobody can have it alone either
