"""The store of blobs on disk, named by their digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from builder.digest import Digest
    from builder.oci.model import Descriptor


class BlobStore:
    """Blobs at `ROOT/sha256/ab/abcd…`; a builder.sources.Blobs.

    A blob appears under its name only when all its bytes are written, hashed and on disk, so that
    a killed process leaves at most a file in `ROOT/tmp`, and two processes may write at once.
    """

    def __init__(self, root: Path) -> None:
        raise NotImplementedError

    def path(self, digest: Digest) -> Path:
        """Where the blob stands, or would stand."""
        raise NotImplementedError

    def has(self, digest: Digest) -> bool:
        """Whether the blob is here."""
        raise NotImplementedError

    def read(self, digest: Digest) -> bytes:
        """All bytes of a small blob, checked; MissingBlobError or DigestMismatchError."""
        raise NotImplementedError

    def chunks(self, digest: Digest) -> Iterator[bytes]:
        """The bytes in chunks of at most 1 MiB; after the last, checked as in `read`."""
        raise NotImplementedError

    def open_blob(self, descriptor: Descriptor) -> AbstractContextManager[Iterator[bytes]]:
        """As ImageSource.open_blob, so that a store can stand where a source does."""
        raise NotImplementedError

    def put(self, chunks: Iterable[bytes], *, expected: Digest | None = None) -> Digest:
        """Store bytes and return their digest; DigestMismatchError keeps nothing."""
        raise NotImplementedError
