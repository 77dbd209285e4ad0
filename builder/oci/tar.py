"""The layers we write: one tar format of our own, versioned, the same bytes on every machine.

Python's tarfile has changed its bytes between versions, and gzip its bytes between libraries; so
layers of ours are plain tar from this writer, and their digest is their diff_id. A change of even
one byte here is a new LAYER_FORMAT. Source: POSIX.1-2017 pax interchange format.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LAYER_FORMAT: Final = 1


class TarKind(Enum):
    """What an entry of a layer of ours is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    WHITEOUT = "whiteout"
    """Hides the path in the layers below; written as the empty file `.wh.NAME`."""


@dataclass(frozen=True, slots=True)
class LazyContent:
    """Bytes that are opened only while the entry is written; `open` may be called many times."""

    size_bytes: int
    open: Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One entry of a layer of ours.

    `path` is as in builder/oci/tree.py; of a whiteout it is the path that is hidden. `mode` holds
    permission bits only, `mtime` is Unix time in seconds, `link` is a symlink's target text.
    """

    path: str
    kind: TarKind
    mode: int
    mtime: int
    uid: int = 0
    gid: int = 0
    link: str = ""
    content: bytes | LazyContent = b""

    @property
    def size_bytes(self) -> int:
        """The size of the content."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.size_bytes


def file_entry(path: str, content: bytes | LazyContent, *, mode: int, mtime: int) -> TarEntry:
    """A regular file that belongs to root."""
    return TarEntry(path, TarKind.FILE, mode, mtime, content=content)


def whiteout_entry(path: str, *, mtime: int) -> TarEntry:
    """The entry that hides `path` in the layers below."""
    return TarEntry(path, TarKind.WHITEOUT, 0o644, mtime)


def ordered(entries: Iterable[TarEntry]) -> tuple[TarEntry, ...]:
    """The entries in the one order that write_tar accepts.

    Depth first and bytewise by path part: parents before children, a directory's whiteouts directly
    after it. Raises DuplicateEntryError.
    """
    raise NotImplementedError


def write_tar(entries: Iterable[TarEntry]) -> Iterator[bytes]:
    """The tar archive of the entries in chunks; memory does not grow with their contents.

    Plain ustar; pax records only for a path, link or size that does not fit. Two zero blocks at the
    end, no record padding. Raises EntryOrderError, MissingParentError, UnwritableEntryError or
    ContentSizeError.
    """
    raise NotImplementedError
