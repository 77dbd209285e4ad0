"""How much an image may ask of the machine that reads it, and the errors of what asks for more.

Far above what images have that run, and low enough that one made to do harm ends in an error and
not in a full disk, all memory or an hour. docs/how-it-works.md lists these numbers.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final

from builder.errors import Message
from builder.oci.errors import BlobError, LayerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_IMAGE_LAYERS: Final = 127
"""Of an image that is read; no engine runs one with more."""

FREE_PLAIN_BYTES: Final = 2 * 2**30
MAX_EXPANSION: Final = 100
"""Compressed bytes may become so many times as many, or FREE_PLAIN_BYTES if that is more.

Text in images becomes 5 times as much. gzip reaches 1000 and zstd 30000, with zeros.
"""

MAX_ENTRIES: Final = 1_000_000
"""Of all layers of an image, whiteouts and directories that no layer states included."""

MAX_PATH_BYTES: Final = 4095
"""What Linux takes."""

MAX_READ_BYTES: Final = 256 * 2**20
"""Of a file that is read into memory: one that is edited, or whose imports are followed."""

REMEDY: Final = "do not use this image; if it is one of your own, make it smaller"


class ExpansionError(ValueError):
    """Bytes that expand to more than they may; `limit_bytes` says how many."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.limit_bytes = limit_bytes


def expanded(plain: Iterable[bytes], *, stored_bytes: int) -> Iterator[bytes]:
    """The same chunks; ExpansionError once they are more than so many stored bytes may become."""
    limit_bytes = max(FREE_PLAIN_BYTES, MAX_EXPANSION * stored_bytes)
    found_bytes = 0
    for chunk in plain:
        found_bytes += len(chunk)
        if found_bytes > limit_bytes:
            raise ExpansionError(limit_bytes)
        yield chunk


@dataclass(eq=False)
class LayerTooLargeError(LayerError):
    """A layer unpacks to more than it may; reading stopped there."""

    _: KW_ONLY
    stored_bytes: int
    limit_bytes: int

    template = Message(
        place="{place}",
        what="the layer unpacks to more than a layer may",
        expected="at most {limit_bytes} bytes, of {stored_bytes} stored ones",
        found="more",
        remedy=REMEDY,
    )


@dataclass(eq=False)
class TooManyEntriesError(LayerError):
    """With this layer, an image has more entries than are read."""

    limit: int = MAX_ENTRIES

    template = Message(
        place="{place}",
        what="the image has too many files and folders",
        expected="at most {limit} in all layers",
        found="more",
        remedy=REMEDY,
    )


@dataclass(eq=False)
class PathTooLongError(LayerError):
    """An entry has a path, or a link, that no Linux takes."""

    _: KW_ONLY
    path: str
    size_bytes: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """The path's beginning and its size."""
        return (
            Message(
                place=self.place,
                what="an entry's path or link is too long",
                expected=f"at most {MAX_PATH_BYTES} bytes, which is what Linux takes",
                found=f"{self.size_bytes} bytes, beginning with {self.path[:60]!r}",
                remedy=REMEDY,
            ),
        )


@dataclass(eq=False)
class BlobTooLargeError(BlobError):
    """A file is too large to be read into memory at once."""

    _: KW_ONLY
    limit_bytes: int

    template = Message(
        place="{place}: {digest}",
        what="a file is too large to be edited, or to be looked into",
        expected="at most {limit_bytes} bytes",
        found="more",
        remedy=REMEDY,
    )
