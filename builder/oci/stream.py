"""Blob and layer bytes on their way, checked as they pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.digest import Hasher
from builder.oci.decompress import DecompressError, UnknownCompressionError, decompressed
from builder.oci.errors import (
    DiffIdMismatchError,
    DigestMismatchError,
    MalformedLayerError,
    SizeMismatchError,
    TruncatedBlobError,
    UnsupportedCompressionError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from builder.oci.model import Descriptor, Layer


def checked(chunks: Iterable[bytes], descriptor: Descriptor, *, place: str) -> Iterator[bytes]:
    """The same chunks; after the last, size and digest are compared with the descriptor.

    Stops as soon as there are too many bytes. Raises SizeMismatchError, TruncatedBlobError or
    DigestMismatchError.
    """
    hasher = Hasher()
    wanted = descriptor.size_bytes
    for chunk in hasher.tee(chunks):
        if hasher.size_bytes > wanted:
            raise SizeMismatchError(
                place, descriptor.digest, expected_bytes=wanted, found_bytes=hasher.size_bytes
            )
        yield chunk
    if hasher.size_bytes < wanted:
        raise TruncatedBlobError(
            place, descriptor.digest, expected_bytes=wanted, found_bytes=hasher.size_bytes
        )
    if hasher.digest() != descriptor.digest:
        raise DigestMismatchError(place, expected=descriptor.digest, found=hasher.digest())


def plain_tar(chunks: Iterable[bytes], layer: Layer, *, place: str) -> Iterator[bytes]:
    """A layer's uncompressed bytes; after the last, digest, size and diff_id are known to be right.

    Raises what `checked` raises, DiffIdMismatchError, UnsupportedCompressionError, or
    MalformedLayerError for damaged compression.
    """
    digest = layer.descriptor.digest
    stored = checked(chunks, layer.descriptor, place=place)
    hasher = Hasher()
    try:
        yield from hasher.tee(decompressed(stored))
    except UnknownCompressionError as error:
        raise UnsupportedCompressionError(digest, found=error.name) from error
    except DecompressError as error:
        drain(stored)
        raise MalformedLayerError(digest, entry="", reason=error.reason) from error
    if hasher.digest() != layer.diff_id:
        raise DiffIdMismatchError(digest, expected=layer.diff_id, found=hasher.digest())


def drain(chunks: Iterable[bytes]) -> None:
    """Read to the end: damaged bytes are then reported as such, and not as a bad archive."""
    for _ in chunks:
        pass
