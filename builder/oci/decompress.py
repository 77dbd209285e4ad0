"""Stored layer bytes to plain tar bytes, as engines do it: by the first bytes, not the media type.

Reading may use any library, since it cannot change a digest; only writing may not. So gzip is read
by ISA-L, about twice as fast as zlib, on every machine that it has a wheel for.
"""

from __future__ import annotations

import re
import sys
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

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
_PIECE_BYTES = 128 * 2**10
_OUTPUT_BYTES = 2**20
_GZIP_WBITS = 31
_FLAGS_END = 4
"""Where in a gzip header the flags end."""
_RESERVED_FLAGS = 0xE0


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
    """The plain bytes, in chunks of at most 1 MiB or the size that they come in, some empty.

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
            yield from gunzipped(stored, fastest_inflate())
        case "zstd":
            yield from _unzstd(stored)
        case name:
            raise UnknownCompressionError(name)


def _joined(start: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if start:
        yield start
    yield from rest


def fastest_inflate() -> Any:  # noqa: ANN401 - a module
    """The module isal.isal_zlib, or zlib on a machine that ISA-L has no wheel for."""
    try:
        from isal import isal_zlib  # noqa: PLC0415 - building a locked image reads no gzip
    except ImportError:
        return zlib
    return isal_zlib


def gunzipped(chunks: Iterable[bytes], engine: Any) -> Iterator[bytes]:  # noqa: ANN401 - a module
    """The plain bytes of one or more gzip members; `engine` is zlib, or has its names.

    Every engine takes and refuses the same streams; how much of a damaged one comes before the
    error may differ. Raises DecompressError.
    """
    member: Any = None
    start = b""
    for piece in _pieces(chunks):
        data, start = start + piece, b""
        while data:
            if member is None:
                data = data.lstrip(b"\0")  # some writers pad the file with zeros
                if len(data) < _FLAGS_END:
                    start = data
                    break
                _require_gzip(data)
                member = engine.decompressobj(_GZIP_WBITS)
            try:
                yield member.decompress(data, _OUTPUT_BYTES)
            except engine.error as error:
                raise DecompressError("gzip: the data are damaged") from error  # noqa: EM101, TRY003
            data = member.unused_data if member.eof else member.unconsumed_tail
            member = None if member.eof else member
    _require_gzip(start)
    if start or member is not None:
        raise DecompressError("gzip: data end too early")  # noqa: EM101, TRY003


def _require_gzip(start: bytes) -> None:
    """Nothing, if a member can begin so: engines differ in what they refuse, and when."""
    flags = start[_FLAGS_END - 1 : _FLAGS_END]
    if not GZIP_MAGIC.startswith(start[:3]) or (flags and flags[0] & _RESERVED_FLAGS):
        raise DecompressError("gzip: what is no gzip follows")  # noqa: EM101, TRY003


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


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in small pieces, so that what one piece expands to is never copied often."""
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE_BYTES):
            yield chunk[start : start + _PIECE_BYTES]
