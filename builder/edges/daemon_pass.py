"""One pass over what an engine saves: each layer listed and measured as it goes by, none stored.

The archive of a graph driver names its layers by an ID of their history, and only its end says
which is which; that of the containerd store, and of Docker from 25 on, is an OCI layout whose index
comes last too. So nothing is known of a layer while its bytes pass, and all of it afterwards.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from builder.digest import Digest, Hasher, digest_bytes
from builder.edges.daemon_errors import EngineArchiveError, EngineSaveError
from builder.edges.layout import require_marker, roots_in
from builder.oci import untar
from builder.oci.assemble import manifest_of
from builder.oci.decompress import (
    MAGIC_BYTES,
    DecompressError,
    UnknownCompressionError,
    compression_of,
    decompressed,
)
from builder.oci.documents import (
    ManifestDocument,
    SavedDocument,
    json_value,
    parse_document,
    read_document,
)
from builder.oci.errors import (
    DiffIdMismatchError,
    DigestMismatchError,
    LayerError,
    MalformedLayerError,
    TruncatedBlobError,
    UnsupportedCompressionError,
)
from builder.oci.image_errors import LayerCountError, MalformedDocumentError
from builder.oci.layers import list_layer
from builder.oci.layout import BLOBS, INDEX, MARKER, SAVED
from builder.oci.limits import ExpansionError, LayerTooLargeError, expanded
from builder.oci.listing_text import listing_text
from builder.oci.model import LAYER_TYPE_OF_COMPRESSION, OCI_MANIFEST, Descriptor, Layer
from builder.oci.select import MAX_DOCUMENT_BYTES, parse_config
from builder.oci.stream import drain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from builder.oci.documents import DescriptorDocument, SavedImageDocument
    from builder.sources import Blobs

MAX_DOCUMENTS_BYTES: Final = 8 * MAX_DOCUMENT_BYTES
"""What all documents of an archive may have together; they are held in memory."""

_LAYER_NAME: Final = re.compile(r"(?:.*/)?layer\.tar\Z|.*\.tar\Z|blobs/sha256/[0-9a-f]{64}\Z")
_START_BYTES: Final = 512
_MAX_LINKS: Final = 8
_NO_DIGEST: Final = Digest("sha256:" + "0" * 64)


@dataclass(frozen=True, slots=True)
class PassedLayer:
    """A layer that went by: its stored blob, its diff_id, and its listing in the store."""

    stored: Descriptor
    diff_id: Digest
    listing: Digest


@dataclass(frozen=True, slots=True)
class Passed:
    """An image that went by; `documents` are its raw manifests, indexes and configs by digest."""

    root: Descriptor
    documents: Mapping[Digest, bytes]
    layers: tuple[PassedLayer, ...]


def pass_over(
    chunks: Iterable[bytes],
    image: Digest,
    *,
    keep: Callable[[str], bool],
    blobs: Blobs,
    place: str,
) -> Passed:
    """The image of an ID in its engine's archive; listings and kept files are in `blobs` then.

    Memory grows with the number of entries of the largest layer only.
    Raises EngineSaveError when the archive ends too early, EngineArchiveError when it is another
    image's, and what reading a layer raises.
    """
    archive = _Archive(place, keep, blobs)
    stream = untar.TarStream(chunks)
    try:
        for member in stream:
            archive.take(member, stream)
    except untar.UntarError as error:
        raise _cut(error, place) from error
    return archive.image(image)


def blobs_in(
    chunks: Iterable[bytes], wanted: Iterable[Descriptor], *, blobs: Blobs, place: str
) -> frozenset[Digest]:
    """The digests of wanted blobs that the archive had; their bytes are in `blobs` then.

    Told apart by size, then by digest: names differ between versions of the engine.
    """
    lacking = {item.digest: item.size_bytes for item in wanted}
    found: set[Digest] = set()
    stream = untar.TarStream(chunks)
    try:
        for member in stream:
            if member.flag == untar.FILE and member.size_bytes in lacking.values():
                digest = blobs.put(_content(stream, place))
                found.add(digest)
                lacking.pop(digest, None)
            if not lacking:
                break  # the rest is left with the engine
    except untar.UntarError as error:
        raise _cut(error, place) from error
    return frozenset(found)


def _content(stream: untar.TarStream, place: str) -> Iterator[bytes]:
    """A member's content; that the archive ends in it is not mistaken for a fault of a layer."""
    try:
        yield from stream.content()
    except untar.UntarError as error:
        raise _cut(error, place) from error


def _cut(error: untar.UntarError, place: str) -> EngineSaveError:
    reason = f"{error.reason}, at {error.entry!r}" if error.entry else error.reason
    return EngineSaveError(place, reason=reason)


@dataclass
class _Archive:
    """What of an archive has gone by."""

    place: str
    keep: Callable[[str], bool]
    blobs: Blobs
    documents: dict[str, bytes] = field(default_factory=dict)
    layers: dict[str, PassedLayer] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    documents_bytes: int = 0

    def take(self, member: untar.Member, stream: untar.TarStream) -> None:
        """Take note of one member, its content read as far as it is needed."""
        path = posixpath.normpath(member.path)
        if member.flag == untar.SYMLINK:
            folder = posixpath.dirname(path)
            self.links[path] = posixpath.normpath(posixpath.join(folder, member.link))
        elif member.flag == untar.HARD_LINK:
            self.links[path] = posixpath.normpath(member.link)
        elif member.flag == untar.FILE:
            start, content = _peeked(_content(stream, self.place))
            if _is_document(start):
                self._document(path, member, content)
            elif _LAYER_NAME.match(path):
                passed = _passed_layer(start, content, member.size_bytes, self)
                self.layers[path] = passed

    def _document(self, path: str, member: untar.Member, content: Iterator[bytes]) -> None:
        self.documents_bytes += member.size_bytes
        if member.size_bytes > MAX_DOCUMENT_BYTES or self.documents_bytes > MAX_DOCUMENTS_BYTES:
            wanted = f"documents of at most {MAX_DOCUMENT_BYTES} bytes"
            raise self._unlike(wanted, found=f"{path} of {member.size_bytes} bytes")
        self.documents[path] = b"".join(content)

    def image(self, asked: Digest) -> Passed:
        """The asked image, from all that went by."""
        if MARKER in self.documents and INDEX in self.documents:
            return self._of_layout(asked)
        if SAVED in self.documents:
            return self._of_list(asked)
        names = ", ".join([*self.documents, *self.layers][:5]) or "nothing"
        reason = f"the archive ended without {SAVED} and without {INDEX}; it had {names}"
        raise EngineSaveError(self.place, reason=reason)

    def _of_layout(self, asked: Digest) -> Passed:
        place = f"{self.place}/{INDEX}"
        require_marker(self.documents[MARKER], place=f"{self.place}/{MARKER}")
        roots = roots_in(self.documents[INDEX], place=place)
        documents = {
            _named(path, self.place, digest_bytes(raw)): raw
            for path, raw in self.documents.items()
            if path.startswith(BLOBS)
        }
        for path, layer in self.layers.items():
            _require_whole(path, layer.stored, documents.values(), self.place)
        root = next((item for item in roots if item.digest == asked), None)
        if root is None and len(roots) == 1 and asked in documents:
            root = roots[0]  # of a graph driver, which names the image by its config
        if root is None or root.digest not in documents:
            raise self._unlike(asked, found=", ".join(x.digest for x in roots) or "no image")
        return Passed(root, documents, tuple(self.layers.values()))

    def _of_list(self, asked: Digest) -> Passed:
        place, wanted = f"{self.place}/{SAVED}", "the list of images of a docker-archive"
        listed = {"images": json_value(self.documents[SAVED], place=place, wanted=wanted)}
        images = parse_document(SavedDocument, listed, place=place, wanted=wanted).images
        for image in images:
            raw = self.documents.get(posixpath.normpath(image.config), b"")
            if digest_bytes(raw) == asked:
                return self._made(image, raw)
        raise self._unlike(asked, found=", ".join(x.config for x in images) or "no image")

    def _made(self, image: SavedImageDocument, raw: bytes) -> Passed:
        """The image with the manifest that follows from config and layers (decision 0006)."""
        place = f"{self.place}/{image.config}"
        config = parse_config(raw, place=place)
        if len(image.layers) != len(config.diff_ids):
            raise LayerCountError(place, layers=len(image.layers), diff_ids=len(config.diff_ids))
        layers = []
        for name, diff_id in zip(image.layers, config.diff_ids, strict=True):
            layer = self._layer(posixpath.normpath(name))
            if layer.diff_id != diff_id:
                digest = layer.stored.digest
                raise DiffIdMismatchError(digest, expected=diff_id, found=layer.diff_id)
            layers.append(layer)
        manifest = manifest_of(config, tuple(Layer(item.stored, item.diff_id) for item in layers))
        root = Descriptor(OCI_MANIFEST, manifest.descriptor.digest, len(manifest.raw))
        documents = {config.digest: raw, root.digest: manifest.raw}
        return Passed(root, documents, tuple(dict.fromkeys(layers)))

    def _layer(self, name: str) -> PassedLayer:
        """The layer at a path of the archive; the same layer twice is a link."""
        path = name
        for _ in range(_MAX_LINKS):
            if path in self.layers:
                return self.layers[path]
            path = self.links.get(path, path)
        wanted = f"a layer {name}"
        raise self._unlike(wanted, found="no such member")

    def _unlike(self, expected: str, *, found: str) -> EngineArchiveError:
        return EngineArchiveError(self.place, expected=expected, found=found)


def _peeked(content: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes of a content, and all of it."""
    start = b""
    while len(start) < _START_BYTES and (chunk := next(content, None)) is not None:
        start += chunk

    def whole() -> Iterator[bytes]:
        yield start
        yield from content

    return start, whole()


def _is_document(start: bytes) -> bool:
    """Whether a member is JSON and not a tar, whose first path may begin like JSON."""
    return start[:1] in (b"{", b"[") and start[257:262] != b"ustar"


def _named(path: str, place: str, found: Digest) -> Digest:
    """The digest that a blob's name states, which its bytes must have."""
    expected = Digest(f"sha256:{path.removeprefix(BLOBS)}")
    if found != expected:
        blob = f"{place}: {expected}"
        raise DigestMismatchError(blob, expected=expected, found=found)
    return found


def _require_whole(path: str, found: Descriptor, documents: Iterable[bytes], place: str) -> None:
    """Nothing, if a layer's bytes are those of its name; TruncatedBlobError if they are fewer."""
    named = Digest(f"sha256:{path.removeprefix(BLOBS)}")
    if found.digest == named:
        return
    for layer in chain.from_iterable(_layers_in(raw, place) for raw in documents):
        if layer.digest == named and layer.size > found.size_bytes:
            raise TruncatedBlobError(
                place, named, expected_bytes=layer.size, found_bytes=found.size_bytes
            )
    _named(path, place, found.digest)


def _layers_in(raw: bytes, place: str) -> tuple[DescriptorDocument, ...]:
    """The layers that a document names; none if it is no manifest."""
    try:
        return read_document(ManifestDocument, raw, place=place, wanted="a manifest").layers
    except MalformedDocumentError:
        return ()


def _passed_layer(
    start: bytes, content: Iterator[bytes], size_bytes: int, archive: _Archive
) -> PassedLayer:
    compression = compression_of(start[:MAGIC_BYTES])
    stored, plain = Hasher(), Hasher()
    chunks = stored.tee(content)
    unknown = Layer(Descriptor("", _NO_DIGEST, 0), _NO_DIGEST)
    try:
        unpacked = _unpacked(chunks, size_bytes)
        if compression:  # else the digest is the diff_id
            unpacked = plain.tee(unpacked)
        listing = list_layer(unpacked, unknown, keep=archive.keep, blobs=archive.blobs)
    except LayerError as error:
        drain(chunks)
        raise replace(error, digest=stored.digest()) from error
    media_type = LAYER_TYPE_OF_COMPRESSION[compression]
    descriptor = Descriptor(media_type, stored.digest(), stored.size_bytes)
    diff_id = plain.digest() if compression else stored.digest()
    return PassedLayer(descriptor, diff_id, archive.blobs.put(listing_text(listing)))


def _unpacked(stored: Iterator[bytes], size_bytes: int) -> Iterator[bytes]:
    """A layer's uncompressed bytes; what is wrong with them becomes a fault of the layer."""
    try:
        yield from expanded(decompressed(stored), stored_bytes=size_bytes)
    except ExpansionError as error:
        raise LayerTooLargeError(
            _NO_DIGEST, stored_bytes=size_bytes, limit_bytes=error.limit_bytes
        ) from error
    except UnknownCompressionError as error:
        raise UnsupportedCompressionError(_NO_DIGEST, found=error.name) from error
    except DecompressError as error:
        raise MalformedLayerError(_NO_DIGEST, entry="", reason=error.reason) from error
