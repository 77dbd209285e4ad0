"""Blob and layer bytes on their way, checked as they pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

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
from builder.oci.hashing import HashingThread
from builder.oci.limits import ExpansionError, LayerTooLargeError, expanded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from builder.oci.model import Descriptor, Layer

    Tee: TypeAlias = Callable[[Hasher, Iterable[bytes]], Iterator[bytes]]


def checked(
    chunks: Iterable[bytes], descriptor: Descriptor, *, place: str, tee: Tee = Hasher.tee
) -> Iterator[bytes]:
    """The same chunks; after the last, size and digest are compared with the descriptor.

    Stops as soon as there are too many bytes. Raises SizeMismatchError, TruncatedBlobError or
    DigestMismatchError.
    """
    hasher = Hasher()
    wanted, found = descriptor.size_bytes, 0
    for chunk in tee(hasher, chunks):
        found += len(chunk)
        if found > wanted:
            raise SizeMismatchError(
                place, descriptor.digest, expected_bytes=wanted, found_bytes=found
            )
        yield chunk
    if found < wanted:
        raise TruncatedBlobError(place, descriptor.digest, expected_bytes=wanted, found_bytes=found)
    if hasher.digest() != descriptor.digest:
        raise DigestMismatchError(place, expected=descriptor.digest, found=hasher.digest())


def plain_tar(chunks: Iterable[bytes], layer: Layer, *, place: str) -> Generator[bytes]:
    """A layer's uncompressed bytes; after the last, digest, size and diff_id are known to be right.

    Hashes on a thread that ends with the generator: close it when it is not read to the end.
    Raises what `checked` raises, DiffIdMismatchError, LayerTooLargeError,
    UnsupportedCompressionError, or MalformedLayerError for damaged compression.
    """
    digest, stored_bytes = layer.descriptor.digest, layer.descriptor.size_bytes
    with HashingThread() as hashing:
        stored = checked(chunks, layer.descriptor, place=place, tee=hashing.tee)
        hasher = Hasher()
        try:
            plain = expanded(decompressed(stored), stored_bytes=stored_bytes)
            yield from hashing.tee(hasher, plain)
        except ExpansionError as error:
            raise LayerTooLargeError(
                digest, stored_bytes=stored_bytes, limit_bytes=error.limit_bytes
            ) from error
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
