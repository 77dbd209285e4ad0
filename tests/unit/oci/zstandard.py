"""Writing zstd, which sparklock itself never does."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def zstandard(data: bytes, *, window_log: int | None = None) -> bytes:
    """One frame; its window is 2 to the power of `window_log` bytes."""
    if window_log is None:
        return zstd.compress(data)
    options = {
        int(zstd.CompressionParameter.window_log): window_log,
        int(zstd.CompressionParameter.enable_long_distance_matching): 1,
    }
    compressor = zstd.ZstdCompressor(options=options)
    return compressor.compress(data) + compressor.flush()


def skippable(data: bytes, *, number: int = 0) -> bytes:
    """A frame that readers pass over, of one of the numbers 0 to 15."""
    return bytes([0x50 + number, 0x2A, 0x4D, 0x18]) + len(data).to_bytes(4, "little") + data
