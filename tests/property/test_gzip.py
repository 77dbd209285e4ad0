"""ISA-L against zlib, on streams of all kinds: whatever reads, the outcome is the same."""

from __future__ import annotations

import sys
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.oci.decompress import GZIP_MAGIC, DecompressError, fastest_inflate, gunzipped

if TYPE_CHECKING:
    from types import ModuleType

ENGINES: tuple[ModuleType, ...] = (zlib, fastest_inflate())
PLAIN = st.one_of(
    st.binary(max_size=500),
    st.binary(max_size=40).map(lambda some: some * 100),
    st.just(b"\0" * 9000),
)
STRATEGIES = st.sampled_from(
    [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]
)
PIECES = st.sampled_from([1, 100, 70_000])
NO_GZIP = "gzip: what is no gzip follows"
CUT = "gzip: data end too early"


@st.composite
def members(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """One member and what is in it, written in any way that deflate knows."""
    plain = draw(PLAIN)
    compressor = zlib.compressobj(
        draw(st.sampled_from([0, 1, 6, 9])),
        zlib.DEFLATED,
        draw(st.sampled_from([25, 31])),
        draw(st.sampled_from([1, 8])),
        draw(STRATEGIES),
    )
    half = len(plain) // 2
    flush = draw(st.sampled_from([zlib.Z_NO_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH]))
    parts = [compressor.compress(plain[:half])]
    if flush != zlib.Z_NO_FLUSH:
        parts.append(compressor.flush(flush))
    parts += [compressor.compress(plain[half:]), compressor.flush()]
    return b"".join(parts), plain


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Members with padding between them, and their plain bytes."""
    stored, plain = b"", b""
    for one, content in draw(st.lists(members(), min_size=1, max_size=3)):
        stored += one + bytes(draw(st.integers(0, 3)))
        plain += content
    return stored, plain


def outcome(stored: bytes, engine: ModuleType, piece_bytes: int) -> bytes | str:
    """The plain bytes, or why there are none."""
    pieces = (stored[at : at + piece_bytes] for at in range(0, len(stored), piece_bytes))
    try:
        return b"".join(gunzipped(pieces, engine))
    except DecompressError as error:
        return error.reason


def both(stored: bytes, piece_bytes: int) -> bytes | str:
    """What both engines say, which is one thing."""
    one, other = (outcome(stored, engine, piece_bytes) for engine in ENGINES)
    assert one == other
    return one


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="no wheel of ISA-L")
def test_two_engines_are_compared() -> None:
    assert ENGINES[1] is not zlib


@given(streams(), PIECES)
def test_a_sound_stream_gives_its_bytes(stream: tuple[bytes, bytes], piece_bytes: int) -> None:
    stored, plain = stream
    assert both(stored, piece_bytes) == plain


@given(members(), PIECES, st.data())
def test_a_stream_that_is_cut_ends_too_early(
    member: tuple[bytes, bytes], piece_bytes: int, data: st.DataObject
) -> None:
    stored, _ = member
    assert both(stored[: data.draw(st.integers(1, len(stored) - 1))], piece_bytes) == CUT


@given(streams(), PIECES, st.binary(min_size=1, max_size=50))
def test_what_follows_the_last_member_is_gzip_or_zeros(
    stream: tuple[bytes, bytes], piece_bytes: int, rest: bytes
) -> None:
    stored, plain = stream
    said = both(stored + rest, piece_bytes)
    rest = rest.lstrip(b"\0")
    if not rest:
        assert said == plain
    elif not GZIP_MAGIC.startswith(rest[:3]):
        assert said == NO_GZIP


@given(streams(), PIECES, st.data())
def test_a_changed_stream_is_refused_or_gives_the_same_bytes(
    stream: tuple[bytes, bytes], piece_bytes: int, data: st.DataObject
) -> None:
    stored, plain = stream
    changed = bytearray(stored)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    said = [outcome(bytes(changed), engine, piece_bytes) for engine in ENGINES]
    assert [text for text in said if isinstance(text, bytes)] in ([], [plain, plain])


@given(st.binary(max_size=300), PIECES)
def test_noise_after_a_header_is_refused_by_both(noise: bytes, piece_bytes: int) -> None:
    said = [outcome(GZIP_MAGIC + noise, engine, piece_bytes) for engine in ENGINES]
    assert all(isinstance(text, str) for text in said)
