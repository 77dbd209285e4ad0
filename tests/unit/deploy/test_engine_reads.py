"""The frames in which an engine sends a log."""

from __future__ import annotations

import pytest

from deploy.edges.engine_reads import joined_streams


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def test_both_streams_come_in_their_order_without_frames() -> None:
    assert joined_streams(frame(1, b"one\n") + frame(2, b"two\n") + frame(1, b"")) == b"one\ntwo\n"


def test_a_large_frame_comes_whole() -> None:
    large = b"x" * 70_000
    assert joined_streams(frame(1, large) + frame(2, b"end")) == large + b"end"


@pytest.mark.parametrize(
    "data", [b"", b"plain text of a terminal\n", b"\x01\x00\x00", b"\x01abc" * 4]
)
def test_what_has_no_frames_stays_as_it_is(data: bytes) -> None:
    assert joined_streams(data) == data
