"""From raw documents to one platform's image: index, manifest and config, Docker's or OCI's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from builder.digest import digest_bytes
from builder.errors import BuildError
from builder.oci.documents import (
    ConfigDocument,
    IndexDocument,
    ManifestDocument,
    json_object,
    parse_document,
    read_document,
)
from builder.oci.errors import MissingBlobError
from builder.oci.image_errors import (
    AmbiguousRootError,
    ConfigPlatformError,
    ForeignLayerError,
    LayerCountError,
    MalformedDocumentError,
    PinNotFoundError,
    PlatformNotFoundError,
    TooManyLayersError,
    UnsupportedMediaTypeError,
)
from builder.oci.limits import MAX_IMAGE_LAYERS
from builder.oci.model import (
    CONFIG_TYPES,
    INDEX_TYPES,
    MANIFEST_TYPES,
    OCI_INDEX,
    OCI_LAYER_TYPE_OF,
    OCI_MANIFEST,
    Descriptor,
    Image,
    ImageConfig,
    ImageIndex,
    ImageManifest,
    IndexEntry,
    Layer,
    Platform,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from builder.digest import Digest
    from builder.sources import ImageSource

MAX_DOCUMENT_BYTES: Final = 8 * 2**20
"""Manifests and configs are refused above this; registries stop at 4 MiB."""

_DEFAULT_VARIANTS = {"arm64": "v8", "amd64": "v1", "arm": "v7"}


@dataclass(frozen=True, slots=True)
class Selected:
    """One platform's image, and the index that it was chosen from, if there was one."""

    index_digest: Digest | None
    image: Image


def select_manifest(source: ImageSource, pin: Digest | None, platform: Platform) -> Selected:
    """The image for a platform: of the pinned index or manifest, else of the source's only root.

    Attestation entries are skipped. Manifest and config are read from the source, and the config's
    own platform, the number of layers and their types are checked.
    Raises PinNotFoundError, AmbiguousRootError, PlatformNotFoundError, ConfigPlatformError,
    LayerCountError, TooManyLayersError, ForeignLayerError, UnsupportedMediaTypeError or
    MalformedDocumentError.
    """
    digest = _only_root(source) if pin is None else pin
    raw = _pinned(source, digest)
    place = f"{source.place}: {digest}"
    index_digest = None
    if _is_index(raw, place=place):
        index_digest = digest
        chosen = _choose(parse_index(raw, place=place), platform, place=place)
        raw = source.document(chosen.digest, media_type=chosen.media_type)
        place = f"{source.place}: {chosen.digest}"
    manifest = parse_manifest(raw, place=place)
    config = parse_config(
        source.document(manifest.config.digest, media_type=manifest.config.media_type),
        place=f"{source.place}: {manifest.config.digest}",
    )
    image = image_of(manifest, config, place=place)
    if _normal(config.platform) != _normal(platform):
        raise ConfigPlatformError(place, wanted=platform.text, found=config.platform.text)
    return Selected(index_digest, image)


def parse_index(raw: bytes, *, place: str) -> ImageIndex:
    """The index or manifest list in the bytes; MalformedDocumentError if it is none."""
    document = read_document(IndexDocument, raw, place=place, wanted="an image index")
    media_type = document.media_type or OCI_INDEX
    _require(media_type, INDEX_TYPES, place=place)
    entries = tuple(
        IndexEntry(
            item.descriptor,
            Platform(item.platform.os, item.platform.architecture, item.platform.variant)
            if item.platform
            else None,
        )
        for item in document.manifests
    )
    return ImageIndex(raw, Descriptor(media_type, digest_bytes(raw), len(raw)), entries)


def parse_manifest(raw: bytes, *, place: str) -> ImageManifest:
    """The image manifest in the bytes; its descriptor is computed from them.

    Raises MalformedDocumentError, TooManyLayersError, ForeignLayerError or
    UnsupportedMediaTypeError.
    """
    document = read_document(ManifestDocument, raw, place=place, wanted="an image manifest")
    media_type = document.media_type or OCI_MANIFEST
    _require(media_type, MANIFEST_TYPES, place=place)
    _require(document.config.media_type, CONFIG_TYPES, place=f"{place}: config")
    layers = tuple(item.descriptor for item in document.layers)
    if len(layers) > MAX_IMAGE_LAYERS:
        raise TooManyLayersError(place, layers=len(layers), limit=MAX_IMAGE_LAYERS)
    for index, layer in enumerate(layers):
        if "foreign" in layer.media_type or "nondistributable" in layer.media_type:
            layer_place = f"{place}: layers[{index}]"
            raise ForeignLayerError(layer_place, media_type=layer.media_type)
        _require(layer.media_type, OCI_LAYER_TYPE_OF, place=f"{place}: layers[{index}]")
    return ImageManifest(
        raw=raw,
        descriptor=Descriptor(media_type, digest_bytes(raw), len(raw)),
        config=document.config.descriptor,
        layers=layers,
    )


def parse_config(raw: bytes, *, place: str) -> ImageConfig:
    """The image config in the bytes; MalformedDocumentError if it is none."""
    wanted = "an image config"
    document: dict[str, Any] = json_object(raw, place=place, wanted=wanted)
    parse_document(ConfigDocument, document, place=place, wanted=wanted)
    return ImageConfig(raw=raw, digest=digest_bytes(raw), document=document)


def image_of(manifest: ImageManifest, config: ImageConfig, *, place: str) -> Image:
    """Manifest and config as one image; LayerCountError if they disagree."""
    if len(manifest.layers) != len(config.diff_ids):
        raise LayerCountError(place, layers=len(manifest.layers), diff_ids=len(config.diff_ids))
    layers = tuple(map(Layer, manifest.layers, config.diff_ids))
    return Image(manifest, config, layers)


def _only_root(source: ImageSource) -> Digest:
    roots = source.roots()
    if len(roots) != 1:
        raise AmbiguousRootError(source.place, offered=tuple(root.digest for root in roots))
    return roots[0].digest


def _pinned(source: ImageSource, digest: Digest) -> bytes:
    try:
        return source.document(digest, media_type=OCI_INDEX)
    except MissingBlobError as error:
        offered = _offered(source)
        if digest in offered:
            raise
        raise PinNotFoundError(source.place, pin=digest, offered=offered) from error


def _offered(source: ImageSource) -> tuple[Digest, ...]:
    """What there is in place of a pin; nothing where a tag, say, is gone too."""
    try:
        return tuple(root.digest for root in source.roots())
    except BuildError:
        return ()


def _choose(index: ImageIndex, platform: Platform, *, place: str) -> Descriptor:
    """The one manifest of a platform; without any stated platform, the only manifest."""
    images = [
        entry
        for entry in index.entries
        if entry.descriptor.media_type in MANIFEST_TYPES and not _is_attestation(entry)
    ]
    stated = [entry for entry in images if entry.platform is not None]
    matches = {
        entry.descriptor
        for entry in (stated or images)
        if entry.platform is None or _normal(entry.platform) == _normal(platform)
    }
    if len(matches) != 1:
        found = {entry.platform.text if entry.platform else "not stated" for entry in images}
        raise PlatformNotFoundError(
            place, wanted=platform.text, found=tuple(sorted(found)), matches=len(matches)
        )
    return matches.pop()


def _is_attestation(entry: IndexEntry) -> bool:
    return entry.platform is not None and entry.platform.os == "unknown"


def same_platform(one: Platform, other: Platform) -> bool:
    """Whether two platforms are one; an absent variant means the processor's usual."""
    return _normal(one) == _normal(other)


def _normal(platform: Platform) -> Platform:
    """The platform with its variant stated: an absent one means the processor's usual."""
    variant = platform.variant or _DEFAULT_VARIANTS.get(platform.architecture, "")
    return Platform(platform.os, platform.architecture, variant)


def _require(media_type: str, accepted: Collection[str], *, place: str) -> None:
    if media_type not in accepted:
        raise UnsupportedMediaTypeError(
            place, media_type=media_type, expected=" or ".join(sorted(accepted))
        )


def _is_index(raw: bytes, *, place: str) -> bool:
    """Whether the bytes are an index; both at once would mean different images to two readers."""
    wanted = "an image manifest or index"
    document = json_object(raw, place=place, wanted=wanted)
    if "manifests" in document and {"config", "layers", "fsLayers"} & set(document):
        problem = "manifest and index in one document"
        raise MalformedDocumentError(place, wanted=wanted, problems=(problem,))
    return "manifests" in document
