"""Stored layer bytes to plain tar bytes, as engines do it: by the first bytes, not the media type.

Reading may use any library, since it cannot change a digest; only writing may not.
"""

from __future__ import annotations

import re
import sys
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GZIP_MAGIC: Final = b"\x1f\x8b\x08"
"""With the method, always deflate: a plain tar may begin with a path of the first two bytes."""
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"

MAGIC_BYTES: Final = 10
"""As many first bytes tell every compression."""

_MAGICS: Final = (
    ("gzip", re.compile(re.escape(GZIP_MAGIC))),
    # also a frame to be skipped, of any of its sixteen numbers: some writers begin with one
    ("zstd", re.compile(re.escape(ZSTD_MAGIC) + rb"|[\x50-\x5f]\x2a\x4d\x18")),
    ("xz", re.compile(rb"\xfd7zXZ\x00")),
    ("bzip2", re.compile(rb"BZh[1-9]1AY&SY")),
)
_PIECE_BYTES = 64 * 2**10
_OUTPUT_BYTES = 2**20
_GZIP_WBITS = 31


class DecompressError(ValueError):
    """The compressed bytes are damaged; `reason` says how."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnknownCompressionError(ValueError):
    """The bytes are of a known compression that is not read; `name` names it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def compression_of(start: bytes) -> str:
    """`gzip`, `zstd`, `xz`, `bzip2` or nothing, by the first MAGIC_BYTES bytes."""
    return next((name for name, magic in _MAGICS if magic.match(start)), "")


def decompressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The plain bytes, in chunks of at most 1 MiB or the size that they come in.

    Reads gzip of one or more members, zstd of one or more frames, and plain bytes. Memory is
    bounded, whatever a frame asks for: 128 MiB, the window up to which every zstd reads.
    Raises DecompressError, or UnknownCompressionError.
    """
    source = iter(chunks)
    start = b""
    while len(start) < MAGIC_BYTES and (chunk := next(source, None)) is not None:
        start += chunk
    stored = _joined(start, source)
    match compression_of(start):
        case "":
            yield from stored
        case "gzip":
            yield from _gunzip(stored)
        case "zstd":
            yield from _unzstd(stored)
        case name:
            raise UnknownCompressionError(name)


def _joined(start: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if start:
        yield start
    yield from rest


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(_GZIP_WBITS)
    between_members = False
    for piece in _pieces(chunks):
        data = piece
        while data:
            if between_members:
                data = data.lstrip(b"\0")  # some writers pad the file with zeros
                if not data:
                    break
                member = zlib.decompressobj(_GZIP_WBITS)
            try:
                plain = member.decompress(data, _OUTPUT_BYTES)
            except zlib.error as error:
                raise DecompressError(f"gzip: {error}") from error  # noqa: EM102, TRY003
            if plain:
                yield plain
            between_members = member.eof
            data = member.unused_data if member.eof else member.unconsumed_tail
    if not between_members:
        raise DecompressError("gzip: data end too early")  # noqa: EM101, TRY003


def _unzstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - most images need none
    else:
        from backports import zstd  # noqa: PLC0415

    frame = zstd.ZstdDecompressor()
    for piece in _pieces(chunks):
        data = piece
        while data or not (frame.eof or frame.needs_input):
            if frame.eof:
                frame = zstd.ZstdDecompressor()
            try:
                plain = frame.decompress(data, _OUTPUT_BYTES)
            except zstd.ZstdError as error:
                raise DecompressError(f"zstd: {error}") from error  # noqa: EM102, TRY003
            if plain:
                yield plain
            data = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise DecompressError("zstd: data end too early")  # noqa: EM101, TRY003


def _pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in small pieces, so that what one piece expands to is never copied often."""
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE_BYTES):
            yield chunk[start : start + _PIECE_BYTES]
