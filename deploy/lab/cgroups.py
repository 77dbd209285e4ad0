"""The lab's control groups, in whichever hierarchies the machine has (version 1, 2 or both)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

REMOVE_TIMEOUT_S: Final = 10.0
POLL_INTERVAL_S: Final = 0.05
_MOUNT_POINT_FIELD: Final = 4


def hierarchies(mountinfo: Iterable[str]) -> tuple[Path, ...]:
    """Mount points of all cgroup hierarchies, from lines of /proc/self/mountinfo."""
    found = set()
    for line in mountinfo:
        fields = line.split()
        if fields[fields.index("-") + 1] in {"cgroup", "cgroup2"}:
            found.add(Path(fields[_MOUNT_POINT_FIELD]))
    return tuple(sorted(found))


def lab_cgroups(name: str) -> tuple[Path, ...]:
    """The cgroups of a lab that exist, one per hierarchy."""
    mountinfo = Path("/proc/self/mountinfo").read_text().splitlines()
    return tuple(path for root in hierarchies(mountinfo) if (path := root / name).is_dir())


def remove(name: str) -> tuple[Path, ...]:
    """The cgroups that could not be removed in time; none, when their processes have ended.

    The kernel lets go of a cgroup a moment after the last process in it.
    """
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while True:
        left = tuple(path for path in lab_cgroups(name) if not _remove_tree(path))
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(POLL_INTERVAL_S)


def _remove_tree(path: Path) -> bool:
    """Whether a cgroup and all below it are gone. Its files are no obstacle to rmdir."""
    below = [child for child in sorted(path.iterdir()) if child.is_dir()]
    emptied = [_remove_tree(child) for child in below]
    if not all(emptied):
        return False
    try:
        path.rmdir()
    except OSError:  # busy
        return False
    return True
