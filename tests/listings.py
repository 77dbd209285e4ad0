"""What an image, a folder or a container holds: for every path the same list of facts."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, Final

from builder.oci.tree import Kind
from builder.oci.whiteout import read_tree
from tests.fakes import MemoryBlobs
from tests.unit.oci.archives import Published, tar_of

if TYPE_CHECKING:
    from pathlib import Path

    from builder.oci.model import Image
    from tests.fuzz.stacks import Member
    from tests.integration.stores.layout_tree import Listing

KINDS: Final = {Kind.FILE: "file", Kind.DIRECTORY: "dir", Kind.SYMLINK: "link", Kind.OTHER: "other"}


def published_image(layers: list[list[Member]]) -> tuple[Published, Image]:
    """An image of the layers that are not empty."""
    published = Published()
    return published, published.image(*(tar_of(*members) for members in layers if members))


def listing_of(published: Published, image: Image) -> Listing:
    """What we say that a container sees."""
    blobs = MemoryBlobs()
    tree = read_tree(published.source, image.layers, keep=lambda _: True, blobs=blobs)
    return {
        f"/{path}": [
            *(KINDS[entry.kind], entry.mode, entry.uid, entry.gid, entry.mtime),
            entry.content.removeprefix("sha256:") if entry.content else entry.link,
        ]
        for path, entry in tree.entries.items()
        if path
    }


def listing_below(root: Path) -> Listing:
    """What is on disk."""
    kinds = {stat.S_IFDIR: "dir", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
    found: Listing = {}
    for path in root.rglob("*"):
        info = path.lstat()
        kind = kinds.get(stat.S_IFMT(info.st_mode), "other")
        content = os.readlink(path) if kind == "link" else ""  # noqa: PTH115 - as it is written
        if kind == "file":
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[f"/{path.relative_to(root)}"] = [
            *(kind, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid, int(info.st_mtime)),
            content,
        ]
    return found
