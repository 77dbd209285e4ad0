"""An image as one tar that every engine loads: an OCI layout and a docker-archive at once.

Docker's graph driver reads `manifest.json` and names the image by its config; the containerd store
prefers the layout, and names it by its manifest: both digests are known before it is loaded. Of a
layer that the engine has already, neither opens the blob, so such blobs can be left out
(moby#18723). The bytes follow from the arguments alone; the tar is that of our layers (tar.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from builder.oci.layout import (
    CONTAINERD_NAME,
    INDEX,
    MARKER,
    REF_NAME,
    SAVED,
    blob_path,
    index_text,
    marker_text,
    saved_text,
)
from builder.oci.stream import checked
from builder.oci.tar import (
    LazyContent,
    TarEntry,
    TarKind,
    file_entry,
    ordered,
    tar_size,
    write_tar,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.digest import Digest
    from builder.oci.model import Descriptor, Image
    from builder.sources import OpenBlob

_NO_TIME: Final = 0
_HUB: Final = "docker.io"


@dataclass(frozen=True, slots=True)
class DualArchive:
    """One image to be written as a tar, as often as wanted; nothing is opened before `chunks`.

    `name` is `REPOSITORY:TAG` as `docker tag` takes it, None for an image without one. Blobs of
    layers in `left_out` stay away; everything else of the image is there, and each once.
    """

    image: Image
    open_blob: OpenBlob
    name: str | None = None
    left_out: frozenset[Digest] = frozenset()

    @property
    def size_bytes(self) -> int:
        """How many bytes `chunks` gives in all."""
        return tar_size(self._entries())

    def chunks(self) -> Iterator[bytes]:
        """The archive's bytes, each layer checked as it passes; memory does not grow with it.

        Raises what `open_blob` raises, and SizeMismatchError, TruncatedBlobError or
        DigestMismatchError for a layer that is another than the manifest says.
        """
        return write_tar(self._entries())

    def _entries(self) -> tuple[TarEntry, ...]:
        image, tags = self.image, () if self.name is None else (self.name,)
        contents: dict[str, bytes | LazyContent] = {
            MARKER: marker_text(),
            INDEX: index_text(image, _annotations(self.name)),
            SAVED: saved_text(image, tags),
            blob_path(image.manifest.descriptor.digest): image.manifest.raw,
            blob_path(image.config.digest): image.config.raw,
        }
        for layer in image.layers:
            stored = layer.descriptor
            if stored.digest not in self.left_out:
                content = LazyContent(stored.size_bytes, partial(self._blob, stored))
                contents[blob_path(stored.digest)] = content
        files = (
            file_entry(path, content, mode=0o644, mtime=_NO_TIME)
            for path, content in contents.items()
        )
        return ordered((*map(_folder, ("blobs", "blobs/sha256")), *files))

    def _blob(self, descriptor: Descriptor) -> Iterator[bytes]:
        with self.open_blob(descriptor) as chunks:
            yield from checked(chunks, descriptor, place=f"layer {descriptor.digest}")


def _folder(path: str) -> TarEntry:
    return TarEntry(path, TarKind.DIRECTORY, 0o755, _NO_TIME)


def _annotations(name: str | None) -> Mapping[str, str]:
    """The names by which containerd and OCI tools know the image."""
    if name is None:
        return {}
    return {CONTAINERD_NAME: _full(name), REF_NAME: name.rpartition(":")[2]}


def _full(name: str) -> str:
    """The name with its registry: containerd has no default one, and Docker asks for this."""
    first, slash, _ = name.partition("/")
    if slash and (first == "localhost" or {".", ":"} & set(first)):
        return name
    return f"{_HUB}/{name}" if slash else f"{_HUB}/library/{name}"
