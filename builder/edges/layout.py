"""OCI image layouts on disk: read as a source of images, and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from builder.digest import Digest
    from builder.oci.model import Descriptor, Image

    OpenBlob: TypeAlias = Callable[[Descriptor], AbstractContextManager[Iterator[bytes]]]


class LayoutSource:
    """A folder in the OCI image layout; a builder.sources.ImageSource."""

    def __init__(self, root: Path) -> None:
        raise NotImplementedError

    @property
    def place(self) -> str:
        """The source as an error names it: `oci:DIR`."""
        raise NotImplementedError

    def roots(self) -> tuple[Descriptor, ...]:
        """The descriptors in index.json, sorted by digest; MissingLayoutError if it is none."""
        raise NotImplementedError

    def document(self, digest: Digest, *, media_type: str) -> bytes:
        """The raw bytes of a manifest, index or config, checked against the digest."""
        raise NotImplementedError

    def open_blob(self, descriptor: Descriptor) -> AbstractContextManager[Iterator[bytes]]:
        """The stored bytes of a blob in chunks of at most 1 MiB."""
        raise NotImplementedError


def write_layout(
    directory: Path, image: Image, open_blob: OpenBlob, *, name: str | None = None
) -> None:
    """Write an OCI layout that holds one image and nothing else.

    Layer bytes come from `open_blob` and are checked. index.json is replaced last, in one step;
    what the layout held before is removed after that. `name` becomes the image's ref.name.
    Raises NotALayoutError when the folder holds something else.
    """
    raise NotImplementedError
