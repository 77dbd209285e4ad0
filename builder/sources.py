"""What the core asks of the outside: a place images come from, and a store of blobs.

Small Protocols, used by resolving, reading layers, picking and assembling. Their classes stand in
builder/edges/: a file or folder for each kind of source, and store.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from builder.digest import Digest
    from builder.oci.layers import LayerListing
    from builder.oci.model import Descriptor, Layer

    OpenBlob: TypeAlias = Callable[[Descriptor], AbstractContextManager[Iterator[bytes]]]
    """As ImageSource.open_blob: what whoever writes or sends an image reads its layers with."""


class ImageSource(Protocol):
    """One place that images come from."""

    @property
    def place(self) -> str:
        """The source as an error names it, such as `oci:examples/lab/images/base`."""

    def roots(self) -> tuple[Descriptor, ...]:
        """What the source offers at the top: indexes or manifests; sorted by digest."""

    def document(self, digest: Digest, *, media_type: str) -> bytes:
        """The raw bytes of a manifest, index or config, checked against the digest.

        `media_type` is what the caller expects; asked for an index, a source gives a manifest too,
        since a pin can name either.
        Raises MissingBlobError, TruncatedBlobError or DigestMismatchError (builder/oci/errors.py).
        """

    def open_blob(self, descriptor: Descriptor) -> AbstractContextManager[Iterator[bytes]]:
        """The stored bytes of a blob in chunks of at most 1 MiB, not yet checked by anyone.

        Called from several threads at once, as `put` of a store is.
        """


@runtime_checkable
class EngineImage(Protocol):
    """What a source of an engine's own image has besides: an ID of the engine's, and one pass.

    An engine gives an image only whole, its layers in an order of its own.
    """

    def image_id(self) -> Digest:
        """What pins the image: its ID in its engine."""

    def listings(
        self, layers: Iterable[Layer], *, keep: Callable[[str], bool], blobs: Blobs
    ) -> Iterator[LayerListing]:
        """What builder.oci.layers.read_layers gives of each layer, in the order asked for."""


class Blobs(Protocol):
    """A content-addressed store of bytes."""

    def has(self, digest: Digest) -> bool:
        """Whether the blob is here."""

    def read(self, digest: Digest) -> bytes:
        """All bytes of a small blob, checked; MissingBlobError if it is not here."""

    def chunks(self, digest: Digest) -> Iterator[bytes]:
        """The bytes of a blob in chunks of at most 1 MiB."""

    def put(self, chunks: Iterable[bytes], *, expected: Digest | None = None) -> Digest:
        """Store bytes and return their digest.

        Raises DigestMismatchError, and keeps nothing, when the digest is not `expected`.
        """
