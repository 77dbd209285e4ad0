"""An image of an engine's own as a source, read in one pass and never stored whole to be locked."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from builder.digest import digest_bytes
from builder.edges.daemon_errors import EngineImageDiffersError, EngineImageMissingError
from builder.edges.daemon_kept import KeptImages
from builder.edges.daemon_pass import blobs_in, pass_over
from builder.oci.documents import json_object
from builder.oci.errors import (
    DiffIdMismatchError,
    MissingBlobError,
    SizeMismatchError,
    TruncatedBlobError,
)
from builder.oci.image_errors import ConfigPlatformError
from builder.oci.layers import read_layer_of
from builder.oci.listing_text import parse_listing
from builder.oci.model import OCI_MANIFEST, Descriptor
from builder.oci.select import same_platform
from builder.oci.tree import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from builder.digest import Digest
    from builder.edges.daemon_api import EngineApi, EngineImageFacts
    from builder.edges.daemon_kept import KeptImage, KeptLayer
    from builder.edges.store import BlobStore
    from builder.oci.layers import LayerListing
    from builder.oci.model import Layer, Platform
    from builder.progress import Progress
    from builder.sources import Blobs


class DaemonSource:
    """An image in an engine: a builder.sources.ImageSource, and an EngineImage.

    Nothing is asked of the engine when this is made, nor ever of an image that is pinned and was
    read once: the store has its documents and a listing of its layers, with the files for which
    `keep` was true. What is read then is the pinned image, even if the name has moved on.

    `asked` is where the manifest names the image, `opened` the way to its engine. Blobs of layers
    are brought into the store when they are opened: with `whole` all that it lacks of the image,
    since an engine gives them in one pass or not at all.
    """

    def __init__(  # noqa: PLR0913 - what it is, and what it works with
        self,
        name: str,
        pin: Digest | None,
        opened: Callable[[str], AbstractContextManager[EngineApi]],
        store: BlobStore,
        progress: Progress,
        *,
        asked: str,
        node: str | None = None,
        platform: Platform | None = None,
        keep: Callable[[str], bool] = lambda _path: False,
        whole: bool = False,
    ) -> None:
        self._name = name
        self._pin = pin
        self._open_engine = opened
        self._store = store
        self._kept = KeptImages(store)
        self._progress = progress
        self._asked = asked
        self._node = node
        self._platform = platform
        self._keep = keep
        self._whole = whole
        self._lock = threading.Lock()
        self._known: KeptImage | None = None
        self._read_now = False

    @property
    def place(self) -> str:
        """The source as an error names it: `docker:NAME`, and the node if the engine is on one."""
        on_node = f" on node {self._node}" if self._node else ""
        return f"docker:{self._name}{on_node}"

    def image_id(self) -> Digest:
        """The ID that the engine has for the name now; the image is not read.

        Raises EngineImageMissingError, or that there is no way to the engine.
        """
        with self._engine() as engine:
            return self._named(engine).id

    def roots(self) -> tuple[Descriptor, ...]:
        """The image, and nothing beside it.

        Raises EngineImageDiffersError when it is not the pinned one.
        """
        image = self._image()
        pinned = image.root.descriptor
        if self._pin is not None and self._pin in image.documents:
            pinned = _as_root(self._store.read(self._pin), pinned)
        return (pinned,)

    def document(self, digest: Digest, *, media_type: str) -> bytes:
        """The raw bytes of a manifest, index or config of the image."""
        assert media_type
        if digest not in self._image().documents:
            raise MissingBlobError(self.place, digest)
        return self._store.read(digest)

    @contextmanager
    def open_blob(self, descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        """The stored bytes of a blob, out of the store; brought there first if it lacks them."""
        image = self._image()
        if descriptor.digest not in image.documents:
            stored = self._layer(image, descriptor.digest).stored
            if stored.size_bytes < descriptor.size_bytes:
                raise TruncatedBlobError(
                    self.place,
                    descriptor.digest,
                    expected_bytes=descriptor.size_bytes,
                    found_bytes=stored.size_bytes,
                )
            self._bring(image, [stored.descriptor])
        yield self._store.chunks(descriptor.digest)

    def listings(
        self, layers: Iterable[Layer], *, keep: Callable[[str], bool], blobs: Blobs
    ) -> Iterator[LayerListing]:
        """Each layer's listing, from when the image was read; kept files are in `blobs` then.

        If `keep` wants more than was kept, the image is read again, all layers in one save. What a
        hard link names of its own layer can be lacking even then: those layers are brought here.
        Raises MissingBlobError, SizeMismatchError or DiffIdMismatchError.
        """
        wanted = list(layers)
        for number, layer in enumerate(wanted):
            listing = self._known_listing(layer, keep, blobs)
            if listing is None and not self._read_now and not self._has(layer.descriptor):
                self._read_again(keep)
                listing = self._known_listing(layer, keep, blobs)
            if listing is None:
                without = (
                    item.descriptor
                    for item in wanted[number:]
                    if self._known_listing(item, keep, blobs) is None
                )
                self._bring(self._image(), list(without))
                listing = read_layer_of(self, layer, keep=keep, blobs=blobs)
            yield listing

    def _known_listing(
        self, layer: Layer, keep: Callable[[str], bool], blobs: Blobs
    ) -> LayerListing | None:
        """What is known of a layer; None where the bytes of a wanted file are not."""
        known = self._layer(self._image(), layer.descriptor.digest)
        _require_same(known, layer, self.place)
        listing = parse_listing(self._store.chunks(known.listing), layer)
        return listing if self._hand_over(listing, keep, blobs) else None

    def _hand_over(self, listing: LayerListing, keep: Callable[[str], bool], blobs: Blobs) -> bool:
        """Whether the bytes of all wanted files of a layer are in `blobs`, once they are put there.

        A hard link to a file that was not kept has none.
        """
        for entry in listing.entries:
            if entry.kind is not Kind.FILE or not keep(entry.path):
                continue
            if entry.content is None or not self._store.is_sound(entry.content):
                return False
            if not blobs.has(entry.content):
                blobs.put(self._store.chunks(entry.content), expected=entry.content)
        return True

    def _layer(self, image: KeptImage, digest: Digest) -> KeptLayer:
        for layer in image.layers:
            if layer.stored.digest == digest:
                return layer
        raise MissingBlobError(self.place, digest)

    def _image(self) -> KeptImage:
        """What is known of the image; it is read if that is nothing yet."""
        with self._lock:
            if self._known is None:
                known = None if self._pin is None else self._kept.find(self._pin)
                self._known = known or self._read()
            return self._known

    def _read(self) -> KeptImage:
        """The image out of its engine, or as it was kept under its ID.

        A pin that is not the ID can still be that of the config, in the containerd store: there
        the image has to be read to know.
        """
        pin = self._pin
        with self._engine() as engine:
            found = self._pinned(engine)
            if found.named_by_config:
                if pin is not None and pin != found.id:
                    raise EngineImageDiffersError(self._asked, pin=pin, found=(found.id,))
                self._require_platform(found)
            image = self._kept.find(found.id) or self._passed(engine, found, self._keep)
        if pin is not None and pin not in image.names:
            raise EngineImageDiffersError(self._asked, pin=pin, found=image.names)
        return image

    def _require_platform(self, found: EngineImageFacts) -> None:
        """Nothing; one config is one platform, and an image of another need not be read."""
        if self._platform is not None and not same_platform(found.platform, self._platform):
            raise ConfigPlatformError(
                self._asked, wanted=self._platform.text, found=found.platform.text
            )

    def _read_again(self, keep: Callable[[str], bool]) -> None:
        """Read the image that is known already, for files that were not kept."""
        with self._lock, self._engine() as engine:
            assert self._known is not None
            self._known = self._passed(engine, self._same(engine, self._known), keep)

    def _passed(
        self, engine: EngineApi, found: EngineImageFacts, keep: Callable[[str], bool]
    ) -> KeptImage:
        self._read_now = True
        self._progress.stage(f"read {self.place}, once: its engine saves it")
        with engine.save(found.id) as chunks:
            passed = pass_over(
                self._told(chunks, found.size_bytes),
                found.id,
                keep=keep,
                blobs=self._store,
                place=self.place,
            )
        return self._kept.keep(found.id, passed)

    def _bring(self, image: KeptImage, wanted: list[Descriptor]) -> None:
        """Nothing; the store has the blobs then. Threads wait for the pass of the first."""
        with self._lock:
            lacking = [item for item in wanted if not self._has(item)]
            if not lacking:
                return
            if self._whole:
                every = (layer.stored.descriptor for layer in image.layers)
                lacking = [item for item in every if not self._has(item)]
            with self._engine() as engine:
                found = self._same(engine, image)
                self._progress.stage(f"take layers out of {self.place}")
                with engine.save(found.id) as chunks:
                    told = self._told(chunks, found.size_bytes)
                    brought = blobs_in(told, lacking, blobs=self._store, place=self.place)
            for item in wanted:
                if item.digest not in brought and not self._has(item):
                    raise MissingBlobError(self.place, item.digest)

    def _has(self, descriptor: Descriptor) -> bool:
        """Whether the store has so many bytes under the digest; reading them checks them."""
        try:
            return self._store.path(descriptor.digest).stat().st_size == descriptor.size_bytes
        except OSError:
            return False

    def _pinned(self, engine: EngineApi) -> EngineImageFacts:
        """The pinned image, whatever its name is now; without it, or a pin, what has the name."""
        found = None if self._pin is None else engine.image(self._pin)
        return found or self._named(engine)

    def _same(self, engine: EngineApi, image: KeptImage) -> EngineImageFacts:
        """The very image that was read; EngineImageDiffersError if the engine has it no more."""
        found = engine.image(image.id)
        if found is None:
            now = self._named(engine)
            raise EngineImageDiffersError(self._asked, pin=image.id, found=(now.id,))
        return found

    def _named(self, engine: EngineApi) -> EngineImageFacts:
        found = engine.image(self._name)
        if found is None:
            tags = engine.tags(_repository(self._name))
            raise EngineImageMissingError(self._asked, name=self._name, tags=tags)
        return found

    def _engine(self) -> AbstractContextManager[EngineApi]:
        return self._open_engine(self._asked)

    def _told(self, chunks: Iterable[bytes], total_bytes: int) -> Iterator[bytes]:
        done_bytes = 0
        for chunk in chunks:
            done_bytes += len(chunk)
            self._progress.advance(self.place, done_bytes, max(done_bytes, total_bytes))
            yield chunk


def _as_root(raw: bytes, index: Descriptor) -> Descriptor:
    """The descriptor of a pinned document if it is a manifest below the index; else the index's."""
    document = json_object(raw, place=index.digest, wanted="a document of an image")
    if "layers" not in document:
        return index
    return Descriptor(str(document.get("mediaType", OCI_MANIFEST)), digest_bytes(raw), len(raw))


def _repository(name: str) -> str:
    """An image's name without its tag and digest; a colon before a slash is a port's."""
    name = name.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return f"{head}{slash}{tail.partition(':')[0]}"


def _require_same(known: KeptLayer, layer: Layer, place: str) -> None:
    """Nothing, if a layer that went by is the one that manifest and config describe."""
    described = layer.descriptor
    if known.stored.size_bytes != described.size_bytes:
        raise SizeMismatchError(
            place,
            described.digest,
            expected_bytes=described.size_bytes,
            found_bytes=known.stored.size_bytes,
        )
    if known.diff_id != layer.diff_id:
        raise DiffIdMismatchError(described.digest, expected=layer.diff_id, found=known.diff_id)
