"""A source that is far away, and what was fetched of it once."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from builder.oci.errors import DamagedBlobError, MissingBlobError
from builder.oci.select import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import Digest
    from builder.edges.store import BlobStore
    from builder.oci.model import Descriptor
    from builder.sources import ImageSource


class KeptSource:
    """A source behind a store: a builder.sources.ImageSource.

    What has a digest is fetched once and then read from the store, since it cannot change. What a
    name means now is asked of the source every time.
    """

    def __init__(self, source: ImageSource, store: BlobStore) -> None:
        self._source = source
        self._store = store

    @property
    def place(self) -> str:
        """The source as an error names it."""
        return self._source.place

    def roots(self) -> tuple[Descriptor, ...]:
        """What the source offers now."""
        return self._source.roots()

    def document(self, digest: Digest, *, media_type: str) -> bytes:
        """The raw bytes of a manifest, index or config, checked against the digest."""
        raw = self._kept(digest)
        if raw is None:
            raw = self._source.document(digest, media_type=media_type)
            self._store.put([raw], expected=digest)
        return raw

    @contextmanager
    def open_blob(self, descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        """The stored bytes of a blob, kept as they pass if they are not here yet.

        One of another size than it should have is fetched again; of one with other bytes
        DamagedBlobError says how to be rid of it, at its end.
        """
        if self._size_bytes(descriptor.digest) == descriptor.size_bytes:
            yield self._store.chunks(descriptor.digest)
            return
        with (
            self._source.open_blob(descriptor) as chunks,
            closing(self._store.keeping(chunks, descriptor.digest)) as kept,
        ):
            yield kept

    def _kept(self, digest: Digest) -> bytes | None:
        """A document that is here; a blob too large for one is the source's to refuse."""
        if self._size_bytes(digest) > MAX_DOCUMENT_BYTES:
            return None
        try:
            return self._store.read(digest)
        except (MissingBlobError, DamagedBlobError):
            return None  # it is fetched again, and put in the place of this one

    def _size_bytes(self, digest: Digest) -> int:
        """The size of a blob that is here; -1 for one that is not."""
        try:
            return self._store.path(digest).stat().st_size
        except OSError:
            return -1
