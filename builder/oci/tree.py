"""File trees: what an image looks like once its layers are stacked, and what a layer of ours holds.

Paths are relative to the root, use `/`, have no `.` or `..` part and no `/` at either end; the root
itself is the empty string. Paths are text decoded with surrogateescape, so any bytes round-trip.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.digest import Digest


HEAD_BYTES: Final = 256
"""As much as Linux reads of a `#!` line, and enough for an ELF header."""


class Kind(Enum):
    """What an entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"
    """Device, fifo, socket: known to be there, never read or written by us."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of an image.

    `layer` is the digest of the stored layer blob that the entry came from. `content` is the digest
    of the file's bytes when the reader was asked to keep them (they are in the blob store then).
    `head` holds the first HEAD_BYTES of an executable regular file: its shebang or ELF header.
    """

    path: str
    kind: Kind
    mode: int
    uid: int
    gid: int
    mtime: int
    size_bytes: int
    layer: Digest
    link: str = ""
    content: Digest | None = None
    head: bytes = b""


class SymlinkLoopError(ValueError):
    """More than 40 symlinks on the way."""


@dataclass(frozen=True, slots=True)
class ImageTree:
    """An image's stacked filesystem, by path."""

    entries: Mapping[str, Entry]

    def get(self, path: str) -> Entry | None:
        """The entry at a path, itself and not what it links to; None if there is none."""
        return self.entries.get(path)

    def resolve(self, path: str, *, follow_last: bool = True) -> str:
        """The path with every symlink of its directories, and with `follow_last` its own, replaced.

        Parts that do not exist stay as they are, so the result can name a file still to be made.
        Absolute links start at the image's root; `..` cannot leave it. SymlinkLoopError on a loop.
        """
        done: list[str] = []
        todo = [part for part in path.split("/") if part not in ("", ".")][::-1]
        hops = 0
        while todo:
            part = todo.pop()
            if part == "..":
                if done:
                    done.pop()
                continue
            here = "/".join([*done, part])
            entry = self.entries.get(here)
            is_link = entry is not None and entry.kind is Kind.SYMLINK
            if entry is None or not is_link or (not todo and not follow_last):
                done.append(part)
                continue
            hops += 1
            if hops > 40:  # noqa: PLR2004 - the kernel's own limit
                raise SymlinkLoopError(path)
            if entry.link.startswith("/"):
                done = []
            todo.extend(p for p in reversed(entry.link.split("/")) if p not in ("", "."))
        return "/".join(done)

    def find(self, path: str) -> Entry | None:
        """The entry a process would reach at an absolute or relative path, links followed."""
        return self.entries.get(self.resolve(path))


def parents(path: str) -> Iterator[str]:
    """The directories above a path, outermost first, without the root."""
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))
