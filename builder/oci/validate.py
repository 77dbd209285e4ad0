"""An image recomputed from its bytes: every digest, diff_id and size, trusting no field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.digest import Hasher
from builder.oci.errors import DigestMismatchError, SizeMismatchError, TruncatedBlobError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from builder.digest import Digest
    from builder.oci.model import Descriptor, Image
    from builder.sources import ImageSource


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


def validate_image(source: ImageSource, digest: Digest) -> Image:
    """The image whose manifest has this digest, all of it read and recomputed.

    Raises InvalidImageError with every problem found, or the error of a document that cannot be
    read at all.
    """
    raise NotImplementedError
