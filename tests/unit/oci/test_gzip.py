"""Layers compressed with gzip: the fast reader, the one in its place, and work left to a thread."""

from __future__ import annotations

import gzip
import sys
import threading
import zlib
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from builder.digest import Hasher, digest_bytes
from builder.oci import decompress
from builder.oci.decompress import DecompressError, decompressed, fastest_inflate
from builder.oci.hashing import HashingThread
from builder.oci.layers import read_layer
from tests.fakes import MemoryBlobs, pieces
from tests.unit.oci.archives import file, gzip_layer, tar_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SOME = tar_of(file("a", bytes(range(256)) * 999), file("run", b"#!" + b"x" * 9999, mode=0o755))


def test_without_isa_l_zlib_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)  # as on a machine that has no wheel

    assert fastest_inflate() is zlib
    assert b"".join(decompressed(pieces(gzip.compress(SOME)))) == SOME


@pytest.mark.parametrize("engine", [zlib, fastest_inflate()])
@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (b"no gzip", "what is no gzip follows"),
        (b"\x1f\x8b\x08\xe0" + bytes(30), "what is no gzip follows"),
        (b"\x1f\x8b\x07" + bytes(30), "what is no gzip follows"),
        (b"\x1f\x8b", "data end too early"),
        (gzip.compress(b"x")[:-1], "data end too early"),
        (gzip.compress(b"x")[:-8] + bytes(8), "the data are damaged"),
    ],
)
def test_what_is_wrong_after_a_member_is_said_by_every_engine_alike(
    engine: object, rest: bytes, reason: str
) -> None:
    with pytest.raises(DecompressError, match=reason):
        list(decompress.gunzipped(pieces(gzip.compress(SOME) + rest), engine))


def test_chunks_are_hashed_in_their_order_by_the_time_that_they_end() -> None:
    chunks = [bytes([number]) * 100_000 for number in range(30)]
    one, all_of = Hasher(), Hasher()
    with HashingThread() as hashing:
        assert list(hashing.tee(all_of, hashing.tee(one, chunks))) == chunks
        assert one.digest() == all_of.digest() == digest_bytes(b"".join(chunks))


def threads() -> int:
    return sum(thread.name == "hashing" for thread in threading.enumerate())


class Full(MemoryBlobs):
    """A store whose disk is full."""

    def put(self, chunks: object, *, expected: object = None) -> object:  # type: ignore[override]
        raise OSError(chunks, expected)


@pytest.mark.parametrize("ending", ["whole", "cut", "store is full", "interrupted"])
def test_no_thread_is_left_however_reading_ends(ending: str) -> None:
    stored = gzip.compress(SOME)
    layer = gzip_layer(stored)

    def chunks() -> Iterator[bytes]:
        yield from pieces(stored[: -9 if ending == "cut" else None])
        if ending == "interrupted":
            raise KeyboardInterrupt

    blobs = Full() if ending == "store is full" else MemoryBlobs()
    with nullcontext() if ending == "whole" else pytest.raises(BaseException) as caught:  # noqa: PT011 - any
        read_layer(chunks(), layer, keep=lambda path: path == "a", blobs=blobs)

    assert (caught is None) == (ending == "whole")  # an error holds the frames of the generators
    assert threads() == 0


def test_the_start_of_a_program_is_known_without_reading_it_whole() -> None:
    stored = gzip.compress(SOME)
    kept = MemoryBlobs()
    for keep in (lambda _path: False, lambda _path: True):
        found = read_layer([stored], gzip_layer(stored), keep=keep, blobs=kept)
        assert [entry.head for entry in found.entries] == [b"", b"#!" + b"x" * 254]
    assert set(kept.data.values()) == {bytes(range(256)) * 999, b"#!" + b"x" * 9999}
