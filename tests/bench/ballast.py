"""What fills large layers: the same on every machine, and of the kind that a measurement needs."""

from __future__ import annotations

import random
import zlib
from functools import lru_cache, partial
from itertools import count, cycle
from typing import TYPE_CHECKING, Final

from builder.oci.tar import LazyContent, TarEntry, TarKind, file_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SEED: Final = 20260101
EPOCH: Final = 1767225600
MIB: Final = 2**20
TURN_BYTES: Final = 4099
"""How far the bytes of a file are turned against those of the file before."""

MAX_FILES: Final = MIB // TURN_BYTES
"""From here on two files would nearly be one; a larger base takes larger files."""

FOLDER: Final = "opt/ballast"
LIBRARY_BYTES: Final = 2 * MIB
SOURCE_BYTES: Final = 8192
SOURCES_PER_LIBRARY: Final = 20


def noise(size_mb: int, part: int = 0) -> Iterator[TarEntry]:
    """Files of about a MiB, `size_mb` times 10**6 bytes in all, that nothing can compress.

    They are one random block, turned, and each is longer than what gzip looks back. Another part
    has other bytes, under other names.
    """
    files = min(size_mb, MAX_FILES)
    size_bytes = size_mb * 10**6 // files
    block = random.Random(SEED + part).randbytes(size_bytes)  # noqa: S311 - ballast, no secret
    yield from _folders()
    for number in range(files):
        content = LazyContent(size_bytes, partial(_turned, block, number * TURN_BYTES))
        yield _file(f"{part}-{number:03}", content)


def software(size_mb: int) -> Iterator[TarEntry]:
    """Libraries with sources between them, that gzip makes about a third of.

    The sizes are those of a Python package with compiled parts. Contents repeat, at a distance that
    gzip cannot see.
    """
    blocks = [_words(seed) for seed in range(4)]
    sources = cycle(
        block[at : at + SOURCE_BYTES] for block in blocks for at in range(0, MIB, 2**16)
    )
    left = size_mb * 10**6
    yield from _folders()
    for number, block in zip(count(), cycle(blocks), strict=False):
        if left <= 0:
            return
        yield _file(f"{number:05}.so", LazyContent(len(block), partial(iter, [block])))
        for source in range(SOURCES_PER_LIBRARY):
            yield _file(f"{number:05}_{source:02}.py", next(sources))
        left -= len(block) + SOURCES_PER_LIBRARY * SOURCE_BYTES


def many_files(files: int) -> Iterator[TarEntry]:
    """Small files, a hundred to a folder."""
    yield from _folders()
    for number in range(files):
        folder, file = divmod(number, 100)
        if file == 0:
            yield _folder(f"{FOLDER}/{folder:05}")
        yield _file(f"{folder:05}/{file:02}.py", b"# file %d\n" % number * (number % 97))


def gzip_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """One gzip member of the chunks, at zlib's usual level, as pigz makes it: in parts.

    A part that comes again is not compressed again, so a large layer takes seconds.
    """
    crc, size_bytes = 0, 0
    yield b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    for chunk in chunks:
        crc, size_bytes = zlib.crc32(chunk, crc), size_bytes + len(chunk)
        yield _deflated(chunk)
    yield b"\x03\0"  # an empty last block
    yield crc.to_bytes(4, "little") + (size_bytes % 2**32).to_bytes(4, "little")


@lru_cache(maxsize=256)
def _deflated(chunk: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(chunk) + deflate.flush(zlib.Z_FULL_FLUSH)


def _words(seed: int) -> bytes:
    """Random words of a small language."""
    chance = random.Random(SEED + seed)  # noqa: S311 - ballast, no secret
    language = [chance.randbytes(chance.randint(2, 14)) for _ in range(1000)]
    return b"".join(chance.choices(language, k=LIBRARY_BYTES // 2))[:LIBRARY_BYTES]


def _turned(block: bytes, at: int) -> Iterator[bytes]:
    view = memoryview(block)
    yield bytes(view[at:])
    yield bytes(view[:at])


def _folders() -> Iterator[TarEntry]:
    for path in ("opt", FOLDER):
        yield _folder(path)


def _folder(path: str) -> TarEntry:
    return TarEntry(path, TarKind.DIRECTORY, 0o755, EPOCH)


def _file(name: str, content: bytes | LazyContent) -> TarEntry:
    return file_entry(f"{FOLDER}/{name}", content, mode=0o644, mtime=EPOCH)
