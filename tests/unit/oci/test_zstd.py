"""Layers compressed with zstd: of one frame or many, whole, cut, and of ill will."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from builder.digest import Digest, digest_bytes
from builder.oci.decompress import DecompressError, decompressed
from builder.oci.errors import DiffIdMismatchError, MalformedLayerError
from builder.oci.layers import read_layer
from builder.oci.model import OCI_LAYER_ZSTD, Descriptor, Layer
from tests.fakes import MemoryBlobs, pieces
from tests.unit.oci.archives import directory, file, plain_layer, tar_of
from tests.unit.oci.zstandard import skippable, zstandard

if TYPE_CHECKING:
    from collections.abc import Iterable

SOME = tar_of(directory("d"), file("d/a", b"abc"), file("d/b", bytes(range(256)) * 400))


def plain(chunks: Iterable[bytes]) -> bytes:
    return b"".join(decompressed(chunks))


def layer(stored: bytes, diff_id: Digest | None = None) -> Layer:
    descriptor = Descriptor(OCI_LAYER_ZSTD, digest_bytes(stored), len(stored))
    return Layer(descriptor, diff_id or digest_bytes(SOME))


@pytest.mark.parametrize("cuts", [(), (1000,), (1, 1, 50_000), (0, len(SOME))])
def test_one_frame_or_several_read_like_the_plain_bytes(cuts: tuple[int, ...]) -> None:
    ends = (*cuts, len(SOME))
    parts = [SOME[begin:end] for begin, end in zip((0, *cuts), ends, strict=True)]
    stored = b"".join(map(zstandard, parts))

    assert plain(pieces(stored)) == plain([stored]) == SOME


def test_bytes_one_by_one_are_enough() -> None:
    stored = zstandard(SOME[:999]) + skippable(b"note") + zstandard(SOME[999:])

    assert plain(bytes([byte]) for byte in stored) == SOME


@pytest.mark.parametrize("number", [0, 15])
@pytest.mark.parametrize("order", ["first", "between", "last"])
def test_frames_to_be_skipped_are_skipped(order: str, number: int) -> None:
    # as podman's zstd:chunked puts its list of files behind the layer, and pzstd one in front
    one, two, note = (
        zstandard(SOME[:999]),
        zstandard(SOME[999:]),
        skippable(b"x" * 99, number=number),
    )
    stored = {"first": note + one + two, "between": one + note + two, "last": one + two + note}

    assert plain(pieces(stored[order])) == SOME


def test_a_layer_has_the_same_entries_as_the_plain_one() -> None:
    stored = zstandard(SOME)
    blobs = MemoryBlobs()

    found = read_layer(pieces(stored), layer(stored), keep=lambda _: True, blobs=blobs)

    wanted = read_layer([SOME], plain_layer(SOME), keep=lambda _: True, blobs=blobs)
    assert [(x.path, x.content) for x in found.entries] == [
        (x.path, x.content) for x in wanted.entries
    ]
    assert found.entries[2].content == digest_bytes(bytes(range(256)) * 400)


@pytest.mark.parametrize("end", [4, 5, 20, -1, -3])
def test_data_that_end_too_early_are_damaged(end: int) -> None:
    with pytest.raises(DecompressError):
        plain([zstandard(SOME)[:end]])


def test_a_second_frame_that_ends_too_early_is_damaged() -> None:
    with pytest.raises(DecompressError, match="zstd: data end too early"):
        plain([zstandard(SOME), zstandard(SOME)[:50]])


@pytest.mark.parametrize("rest", [b"\0" * 8, b"rest", b"\x1f\x8b\x08"])
def test_something_else_behind_a_frame_is_damage(rest: bytes) -> None:
    with pytest.raises(DecompressError, match="zstd: "):
        plain([zstandard(SOME) + rest])


@pytest.mark.parametrize("position", range(5, 200, 15))
def test_a_changed_byte_is_damage_or_another_diff_id(position: int) -> None:
    stored = bytearray(zstandard(SOME))
    stored[position] ^= 0xFF
    changed = bytes(stored)

    with pytest.raises((MalformedLayerError, DiffIdMismatchError)):
        read_layer([changed], layer(changed), keep=lambda _: False, blobs=MemoryBlobs())


def test_a_window_of_more_memory_than_every_reader_has_is_refused() -> None:
    with pytest.raises(DecompressError, match="memory"):
        plain([zstandard(b"x" * 2**20 + bytes(2**28), window_log=28)])


def test_a_bomb_takes_time_but_no_memory() -> None:
    stored = zstandard(bytes(2**28))
    assert len(stored) < 2**16
    tracemalloc.start()
    try:
        assert sum(map(len, decompressed([stored]))) == 2**28
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2**24
