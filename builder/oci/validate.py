"""An image recomputed from its bytes: every digest, diff_id and size, trusting no field."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    raise NotImplementedError


def validate_image(source: ImageSource, digest: Digest) -> Image:
    """The image whose manifest has this digest, all of it read and recomputed.

    Raises InvalidImageError with every problem found, or the error of a document that cannot be
    read at all.
    """
    raise NotImplementedError
