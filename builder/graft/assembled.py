"""The image as it will be: the base's tree with everything laid over it that we add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.digest import Digest, digest_bytes
from builder.oci.tree import HEAD_BYTES, Entry, ImageTree, Kind, parents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.graft.packages import Read
    from builder.graft.pick import Pick

_OURS = Digest("")
"""The layer of what we add: it has no digest yet, and nothing in this check asks for one."""


@dataclass(frozen=True, slots=True)
class OurFile:
    """A file that we write: an edited table, or one of our own files. `path` is a tree path."""

    path: str
    mode: int
    data: bytes


def assembled(
    base: ImageTree,
    read: Read,
    picks: Iterable[Pick],
    files: Iterable[OurFile],
    removed: Iterable[str] = (),
) -> tuple[ImageTree, Read]:
    """The tree of the assembled image, and a reader of its files.

    Targets are resolved through the base's symlinks. Of two files of one path the later one
    counts. Picks come first; then the files at the tree paths `removed` go, which a diff deletes.
    """
    entries = dict(base.entries)
    ours: dict[Digest, bytes] = {}

    def add(target: str, mode: int, content: Digest, size_bytes: int, head: bytes) -> None:
        path = base.resolve(target, follow_last=False)
        shown = head[:HEAD_BYTES] if mode & 0o111 else b""
        entries[path] = Entry(
            path, Kind.FILE, mode, 0, 0, 0, size_bytes, _OURS, content=content, head=shown
        )
        for parent in parents(path):
            entries.setdefault(parent, Entry(parent, Kind.DIRECTORY, 0o755, 0, 0, 0, 0, _OURS))

    for pick in picks:
        add(pick.target, pick.mode, pick.content, pick.size_bytes, pick.head)
    for path in removed:
        entries.pop(path, None)
    for file in files:
        content = digest_bytes(file.data)
        ours[content] = file.data
        add(file.path, file.mode, content, len(file.data), file.data)

    def read_any(digest: Digest) -> bytes:
        return ours[digest] if digest in ours else read(digest)

    return ImageTree(entries), read_any
