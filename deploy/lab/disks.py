"""Small disks for a node, and full ones.

A node's folders lie on the machine's own disk, which nobody wants to fill. So a folder of the node
gets a disk of a few megabytes in memory first; that one can be filled.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from deploy.lab.errors import LabCommandError, LabSpecError, NodeOffError
from deploy.lab.node_init import RECORD_FILE
from deploy.lab.nodes import inside, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deploy.lab.spec import NodeSpec

ENGINE_DATA: Final = "/var/lib/docker"
FILLER: Final = "sparklock-filler"
SOURCE: Final = "sparklock-small-disk"
"""What the mount table of a node calls them."""


@contextmanager
def small_disk(node: NodeSpec, folder: str, size_mib: int) -> Iterator[None]:
    """Nothing; inside the block the folder is an empty disk of this size, which a power cut ends.

    What lies in the folder is hidden meanwhile. Who uses the folder has to be stopped before and
    after, or keeps what it has open.
    """
    options = f"size={size_mib}m"
    _in_node(node, ["mkdir", "-p", folder])
    _in_node(node, ["mount", "-t", "tmpfs", "-o", options, SOURCE, folder])
    try:
        yield
    finally:
        if running(node.folder / RECORD_FILE) is not None and folder in small_disks(node):
            # Lazily: the engine's overlays below it go with it.
            _in_node(node, ["umount", "--lazy", folder])


@contextmanager
def filled(node: NodeSpec, folder: str, left_bytes: int) -> Iterator[None]:
    """Nothing; inside the block the folder's small disk has no more than this free.

    LabSpecError if it is the machine's own disk that would be filled.
    """
    if folder not in small_disks(node):
        raise LabSpecError(field="folder", expected="a folder that has a small disk", found=folder)
    filler = inside(node, folder) / FILLER
    with filler.open("wb") as file:
        disk = os.statvfs(file.fileno())
        size = disk.f_bavail * disk.f_frsize - left_bytes
        if size > 0:
            os.posix_fallocate(file.fileno(), 0, size)
    try:
        yield
    finally:
        filler.unlink(missing_ok=True)


def small_disks(node: NodeSpec) -> frozenset[str]:
    """The folders of a running node that have small disks."""
    # The node's own /proc numbers from 1; `self` would be nobody there.
    lines = (line.split() for line in inside(node, "/proc/1/mounts").read_text().splitlines())
    return frozenset(folder for source, folder, *_ in lines if source == SOURCE)


def _in_node(node: NodeSpec, argv: list[str]) -> None:
    """Nothing; a program has changed the node's mounts, which its first process can see."""
    record = running(node.folder / RECORD_FILE)
    if record is None:
        raise NodeOffError(node.name)
    # With its process numbers, as umount looks itself up in the node's /proc.
    command = ["nsenter", f"--target={record.pid}", "--mount", "--pid", "--", *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabCommandError(argv, done.returncode, done.stderr, place=f"lab node {node.name}")
