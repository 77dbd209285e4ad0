"""Stand-ins for the outside, held to the same contracts as the real edges (tests/contract/)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from builder.digest import Digest, digest_bytes
from builder.oci.errors import DigestMismatchError, MissingBlobError, TruncatedBlobError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from builder.oci.model import Descriptor

PIECE_BYTES = 1000
"""Blobs come in pieces of an odd size, so that no reader can count on block boundaries."""


class MemoryBlobs:
    """A builder.sources.Blobs in a dict."""

    place = "memory:"

    def __init__(self) -> None:
        self.data: dict[Digest, bytes] = {}

    def has(self, digest: Digest) -> bool:
        return digest in self.data

    def read(self, digest: Digest) -> bytes:
        if digest not in self.data:
            raise MissingBlobError(self.place, digest)
        data = self.data[digest]
        if digest_bytes(data) != digest:
            raise DigestMismatchError(self.place, expected=digest, found=digest_bytes(data))
        return data

    def chunks(self, digest: Digest) -> Iterator[bytes]:
        yield from pieces(self.read(digest))

    def put(self, chunks: Iterable[bytes], *, expected: Digest | None = None) -> Digest:
        data = b"".join(chunks)
        found = digest_bytes(data)
        if expected is not None and found != expected:
            raise DigestMismatchError(self.place, expected=expected, found=found)
        self.data[found] = data
        return found


class MemorySource:
    """A builder.sources.ImageSource in a dict; `opened` counts how often each blob was opened."""

    place = "memory:"

    def __init__(self) -> None:
        self.blobs: dict[Digest, bytes] = {}
        self.tops: list[Descriptor] = []
        self.opened: dict[Digest, int] = {}

    def add(self, data: bytes) -> Digest:
        digest = digest_bytes(data)
        self.blobs[digest] = data
        return digest

    def roots(self) -> tuple[Descriptor, ...]:
        return tuple(sorted(self.tops, key=lambda top: top.digest))

    def document(self, digest: Digest, *, media_type: str) -> bytes:
        assert media_type
        data = self._blob(digest)
        if digest_bytes(data) != digest:
            raise DigestMismatchError(self.place, expected=digest, found=digest_bytes(data))
        return data

    @contextmanager
    def open_blob(self, descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        data = self._blob(descriptor.digest)
        self.opened[descriptor.digest] = self.opened.get(descriptor.digest, 0) + 1
        if len(data) < descriptor.size_bytes:
            raise TruncatedBlobError(
                self.place,
                descriptor.digest,
                expected_bytes=descriptor.size_bytes,
                found_bytes=len(data),
            )
        yield pieces(data)

    def _blob(self, digest: Digest) -> bytes:
        if digest not in self.blobs:
            raise MissingBlobError(self.place, digest)
        return self.blobs[digest]


def pieces(data: bytes) -> Iterator[bytes]:
    """The bytes in pieces of PIECE_BYTES."""
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]
