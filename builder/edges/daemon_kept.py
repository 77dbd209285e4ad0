"""What is known of engines' images that were read once, so that none is saved twice.

A small file for each digest that can pin an image, beside the blobs of the store that it names: the
image's documents and a listing of each layer. All of it can be deleted at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from builder.digest import hex_of
from builder.edges.disk import storage_errors, write_whole
from builder.oci.documents import DigestText
from builder.oci.listing_text import LISTING_FORMAT
from builder.oci.model import Descriptor

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from pathlib import Path

    from builder.digest import Digest
    from builder.edges.daemon_pass import Passed, PassedLayer
    from builder.edges.store import BlobStore

FOLDER: Final = "engine-images"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class KeptDescriptor(_Record):
    """A descriptor."""

    media_type: str
    digest: DigestText
    size_bytes: int

    @property
    def descriptor(self) -> Descriptor:
        """The same as a value of the core."""
        return Descriptor(self.media_type, self.digest, self.size_bytes)


class KeptLayer(_Record):
    """A layer, and the blob of the store that is its listing."""

    stored: KeptDescriptor
    diff_id: DigestText
    listing: DigestText


class KeptImage(_Record):
    """An image of an engine; `documents` are blobs of the store."""

    listing_format: Literal[2] = LISTING_FORMAT
    id: DigestText
    root: KeptDescriptor
    documents: tuple[DigestText, ...]
    layers: tuple[KeptLayer, ...]

    @property
    def names(self) -> tuple[Digest, ...]:
        """The digests that pin it, its ID first.

        The containerd store has the image's own documents, and each of them pins it. A graph driver
        has its config alone, which the ID is of; a manifest is made on the way.
        """
        own = self.documents if self.id == self.root.digest else ()
        return tuple(dict.fromkeys((self.id, *own)))


class KeptImages:
    """The images of engines that a store knows."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._folder = store.root / FOLDER

    def find(self, pin: Digest) -> KeptImage | None:
        """The image of an ID or another of its digests, if nothing of it is missing or damaged."""
        try:
            image = KeptImage.model_validate_json(self._path(pin).read_bytes())
        except (OSError, ValidationError):
            return None
        needed = (*image.documents, *(layer.listing for layer in image.layers))
        sound = pin in image.names and all(map(self._store.is_sound, needed))
        return image if sound else None

    def keep(self, image: Digest, passed: Passed) -> KeptImage:
        """The image as it is found from now on."""
        for digest, raw in passed.documents.items():
            self._store.put([raw], expected=digest)
        kept = KeptImage(
            id=image,
            root=_described(passed.root),
            documents=tuple(sorted(passed.documents)),
            layers=tuple(map(_layer, passed.layers)),
        )
        self._write(kept)
        return kept

    def blobs_of(self, wanted: Container[Digest]) -> Iterator[Digest]:
        """The blobs by which the images of these digests are known, and need not be saved again."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                image = KeptImage.model_validate_json(path.read_bytes())
            except (OSError, ValidationError):
                continue
            if image.root.digest in wanted or any(name in wanted for name in image.names):
                yield from (*image.documents, *(layer.listing for layer in image.layers))

    def _write(self, kept: KeptImage) -> None:
        text = kept.model_dump_json().encode()
        with storage_errors(str(self._folder), "keep what is known of an engine's image"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for name in kept.names:
                # One config can belong to several manifests, as two engines store it: whoever
                # pinned the config goes on with the first.
                if name == kept.id or self.find(name) is None:
                    write_whole(self._path(name), [text])

    def _path(self, pin: Digest) -> Path:
        return self._folder / f"{hex_of(pin)}.json"


def _described(descriptor: Descriptor) -> KeptDescriptor:
    return KeptDescriptor(
        media_type=descriptor.media_type,
        digest=descriptor.digest,
        size_bytes=descriptor.size_bytes,
    )


def _layer(passed: PassedLayer) -> KeptLayer:
    return KeptLayer(
        stored=_described(passed.stored), diff_id=passed.diff_id, listing=passed.listing
    )
