"""Folders of ours in /tmp, which end with their process or are found by the next one."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

PARENT: Final = Path("/tmp")  # noqa: S108 - mkdtemp makes it ours alone
"""A socket's path may have 104 bytes, and ssh adds 17 while it binds; this is short."""

PREFIX: Final = "sparklock-ssh-"
YOUNG_S: Final = 60
"""A folder younger than this may be one that is not locked yet."""


class Place:
    """A folder of this process, until `remove`; its lock ends with the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove it with all that is in it; again is nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep() -> None:
    """Remove what killed processes of this user left; what cannot be removed is left alone."""
    for path in PARENT.glob(f"{PREFIX}*"):
        with suppress(OSError):
            _sweep(path)


def _sweep(path: Path) -> None:
    """Remove a folder if it is ours and nobody locks it; OSError when somebody does."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(lock)
        private = stat.S_IMODE(facts.st_mode) == stat.S_IRWXU and facts.st_uid == os.geteuid()
        if private and time.time() - facts.st_mtime > YOUNG_S:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
    finally:
        os.close(lock)
