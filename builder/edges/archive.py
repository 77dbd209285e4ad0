"""Archives of images as sources: of `docker save`, of skopeo, or an OCI layout in a tar."""

from __future__ import annotations

import posixpath
import re
import threading
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.digest import Digest, Hasher, digest_bytes
from builder.edges.archive_file import Part, PlainArchive, plain_file
from builder.edges.layout import require_marker, roots_in
from builder.oci.assemble import manifest_of
from builder.oci.decompress import MAGIC_BYTES, compression_of
from builder.oci.documents import SavedDocument, json_value, parse_document
from builder.oci.errors import (
    DigestMismatchError,
    MissingBlobError,
    TruncatedBlobError,
    UnsupportedCompressionError,
)
from builder.oci.image_errors import LayerCountError
from builder.oci.layout import BLOBS, INDEX, MARKER, SAVED
from builder.oci.model import (
    LAYER_TYPE_OF_COMPRESSION,
    OCI_MANIFEST,
    Descriptor,
    Layer,
)
from builder.oci.select import parse_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from builder.oci.documents import SavedImageDocument

_NAMED_BY_DIGEST: Final = re.compile(r"(?:.*/)?([0-9a-f]{64})(?:\.json)?\Z")


class ArchiveSource:
    """An archive of one or more images; a builder.sources.ImageSource. Not opened when it is made.

    A plain archive is read where it lies. A compressed one is decompressed once, into a file below
    `spool` that has no name and is gone with this source.

    An archive with the files of an OCI layout is one, whatever else it has. Of a docker-archive
    the manifest is made here, the same for the same config and layers: it has none. Its layers are
    usually plain tars, so each has its diff_id as digest, not the digest that a registry knows.
    """

    def __init__(self, path: Path, *, spool: Path) -> None:
        self._path = path
        self._spool = spool
        self._lock = threading.Lock()
        self._images: _Images | None = None

    @property
    def place(self) -> str:
        """The source as an error names it: `archive:FILE`."""
        return f"archive:{self._path}"

    def roots(self) -> tuple[Descriptor, ...]:
        """The images in the archive, sorted by digest.

        Raises MissingArchiveError, DamagedArchiveError or IncompleteArchiveError.
        """
        return self._opened().roots

    def document(self, digest: Digest, *, media_type: str) -> bytes:
        """The raw bytes of a manifest, index or config, checked against the digest."""
        images = self._opened()
        if digest in images.made:
            return images.made[digest]
        raw = images.tar.small(self._part(digest), f"{self.place}: {digest}", media_type)
        if digest_bytes(raw) != digest:
            place = f"{self.place}: {digest}"
            raise DigestMismatchError(place, expected=digest, found=digest_bytes(raw))
        return raw

    @contextmanager
    def open_blob(self, descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        """The stored bytes of a blob in chunks of at most 1 MiB.

        Raises MissingBlobError, or TruncatedBlobError at once when the member is too short.
        """
        images = self._opened()
        if descriptor.digest in images.made:
            yield iter([images.made[descriptor.digest]])
            return
        part = self._part(descriptor.digest)
        if part.size_bytes < descriptor.size_bytes:
            raise TruncatedBlobError(
                self.place,
                descriptor.digest,
                expected_bytes=descriptor.size_bytes,
                found_bytes=part.size_bytes,
            )
        yield images.tar.chunks(part)

    def _part(self, digest: Digest) -> Part:
        part = self._opened().blobs.get(digest)
        if part is None:
            raise MissingBlobError(self.place, digest)
        return part

    def _opened(self) -> _Images:
        with self._lock:
            if self._images is None:
                file = plain_file(self._path, self._spool, self.place)
                try:
                    self._images = _images_of(PlainArchive(self.place, file))
                except BaseException:
                    file.close()
                    raise
                weakref.finalize(self, file.close)
            return self._images


@dataclass(frozen=True, slots=True)
class _Images:
    """What an archive holds: `made` are documents that it has not, and that follow from it."""

    tar: PlainArchive
    roots: tuple[Descriptor, ...]
    blobs: Mapping[Digest, Part]
    made: Mapping[Digest, bytes]


def _images_of(tar: PlainArchive) -> _Images:
    if tar.find(MARKER) and tar.find(INDEX):
        return _layout(tar)
    if tar.find(SAVED):
        return _saved(tar)
    missing = f"{MARKER} and {INDEX} (OCI), or {SAVED} (Docker)"
    raise tar.incomplete(missing)


def _layout(tar: PlainArchive) -> _Images:
    texts = {}
    for name in (MARKER, INDEX):
        place = f"{tar.place}/{name}"
        texts[name] = tar.small(tar.require(name), place, "a file of an OCI layout")
    require_marker(texts[MARKER], place=f"{tar.place}/{MARKER}")
    blobs = {
        Digest(f"sha256:{name.removeprefix(BLOBS)}"): tar.require(name)
        for name in tar.names
        if name.startswith(BLOBS)
    }
    roots = roots_in(texts[INDEX], place=f"{tar.place}/{INDEX}")
    return _Images(tar, roots, blobs, made={})


def _saved(tar: PlainArchive) -> _Images:
    place, wanted = f"{tar.place}/{SAVED}", "the list of images of a docker-archive"
    raw = tar.small(tar.require(SAVED), place, wanted)
    images = {"images": json_value(raw, place=place, wanted=wanted)}
    document = parse_document(SavedDocument, images, place=place, wanted=wanted)
    blobs: dict[Digest, Part] = {}
    made: dict[Digest, bytes] = {}
    for image in document.images:
        manifest = _manifest(tar, image, blobs)
        made[digest_bytes(manifest)] = manifest
    roots = (Descriptor(OCI_MANIFEST, digest, len(raw)) for digest, raw in sorted(made.items()))
    return _Images(tar, tuple(roots), blobs, made)


def _manifest(tar: PlainArchive, image: SavedImageDocument, blobs: dict[Digest, Part]) -> bytes:
    """The manifest that follows from config and layers; their places are put into `blobs`."""
    place = f"{tar.place}/{image.config}"
    config = parse_config(_config(tar, image.config), place=place)
    diff_ids = config.diff_ids
    if len(image.layers) != len(diff_ids):
        raise LayerCountError(place, layers=len(image.layers), diff_ids=len(diff_ids))
    layers = []
    for name, diff_id in zip(image.layers, diff_ids, strict=True):
        part = tar.require(posixpath.normpath(name))
        layer = _layer(tar, part, diff_id)
        blobs[layer.digest] = part
        layers.append(Layer(layer, diff_id))
    blobs[config.digest] = tar.require(posixpath.normpath(image.config))
    return manifest_of(config, tuple(layers)).raw


def _config(tar: PlainArchive, name: str) -> bytes:
    """The config's bytes, checked against its name where that is a digest, as Docker writes it."""
    path = posixpath.normpath(name)
    match = _NAMED_BY_DIGEST.match(path)
    named = Digest(f"sha256:{match[1]}") if match else None
    if named is not None and tar.find(path) is None:
        raise MissingBlobError(tar.place, named)
    raw = tar.small(tar.require(path), f"{tar.place}/{name}", "an image config")
    if named is not None and digest_bytes(raw) != named:
        place = f"{tar.place}: {named}"
        raise DigestMismatchError(place, expected=named, found=digest_bytes(raw))
    return raw


def _layer(tar: PlainArchive, part: Part, diff_id: Digest) -> Descriptor:
    """A layer as the manifest names it; of a compressed one the stored bytes are hashed."""
    start = next(tar.chunks(Part(part.offset, min(part.size_bytes, MAGIC_BYTES))), b"")
    compression = compression_of(start)
    if compression not in LAYER_TYPE_OF_COMPRESSION:
        raise UnsupportedCompressionError(diff_id, found=compression)
    digest = diff_id
    if compression:
        hasher = Hasher()
        for chunk in tar.chunks(part):
            hasher.update(chunk)
        digest = hasher.digest()
    return Descriptor(LAYER_TYPE_OF_COMPRESSION[compression], digest, part.size_bytes)
