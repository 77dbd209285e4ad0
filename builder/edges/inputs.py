"""The inputs of a lock where they lie: in the store, or in files beside the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.digest import digest_bytes
from builder.oci.errors import DamagedBlobError, MissingBlobError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from builder.digest import Digest
    from builder.edges.store import BlobStore


class Inputs:
    """A builder.sources.Blobs that only reads, so that checking a lock leaves no trace.

    What `files` name in the folder, such as our own files, the store need not have.
    """

    def __init__(self, store: BlobStore, folder: Path, files: Iterable[tuple[str, Digest]]) -> None:
        self._store = store
        self._paths = {digest: folder / source for source, digest in files}

    def has(self, digest: Digest) -> bool:
        """Whether the blob is here."""
        return digest in self._paths or self._store.has(digest)

    def is_sound(self, digest: Digest) -> bool:
        """Whether the blob is here with the bytes it is named by; reads it whole."""
        try:
            self.read(digest)
        except (MissingBlobError, DamagedBlobError):
            return False
        return True

    def read(self, digest: Digest) -> bytes:
        """All bytes of a small blob, checked; MissingBlobError or DamagedBlobError."""
        path = self._paths.get(digest)
        if path is None:
            return self._store.read(digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise MissingBlobError(str(path), digest) from error
        if digest_bytes(data) != digest:
            raise DamagedBlobError(str(path), expected=digest, found=digest_bytes(data))
        return data

    def chunks(self, digest: Digest) -> Iterator[bytes]:
        """The bytes of a blob, checked."""
        if digest in self._paths:
            yield self.read(digest)
        else:
            yield from self._store.chunks(digest)

    def put(self, chunks: Iterable[bytes], *, expected: Digest | None = None) -> Digest:
        """Never: who checks a lock writes nothing."""
        raise NotImplementedError
