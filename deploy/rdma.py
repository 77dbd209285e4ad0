"""Which device files of a node its RDMA devices are: asked of the node, chosen here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.launch_errors import RdmaFileMissingError

if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS: Final = "/sys/class/infiniband_verbs"
DEVICES: Final = "/dev/infiniband"
CONNECTION_MANAGER: Final = "rdma_cm"
"""Shared by all RDMA devices: it opens connections by IP address, as UCX does."""

PROGRAM: Final = """
for file in "$1"/*/ibdev; do
  [ -r "$file" ] && read -r hca <"$file" || continue
  folder=${file%/ibdev}
  [ -c "$2/${folder##*/}" ] && echo "${folder##*/} $hca"
done
[ -c "$2/rdma_cm" ] && echo rdma_cm
exit 0
"""
"""POSIX sh; $1 is VERBS, $2 DEVICES. Prints `uverbs0 rocep1s0f0` for each device that is there."""


def rdma_device_paths(node: str, hcas: Sequence[str], told: str) -> tuple[str, ...]:
    """The device files that RDMA over these devices needs, of what PROGRAM printed.

    RdmaFileMissingError if one of the devices has none. rdma-core leaves out a device whose file
    it does not find, so the node's others stay unseen in the container.
    """
    files = {words[-1]: words[0] for words in map(str.split, told.splitlines()) if words}
    missing = [hca for hca in hcas if hca not in files]
    if missing:
        raise RdmaFileMissingError(node, missing, sorted(files.keys() - {CONNECTION_MANAGER}))
    shared = [CONNECTION_MANAGER] if CONNECTION_MANAGER in files else []
    return tuple(f"{DEVICES}/{name}" for name in (*shared, *sorted(files[hca] for hca in hcas)))
