"""From raw documents to one platform's image: index, manifest and config, Docker's or OCI's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from builder.digest import Digest
    from builder.oci.model import Image, ImageConfig, ImageIndex, ImageManifest, Platform
    from builder.sources import ImageSource

MAX_DOCUMENT_BYTES: Final = 8 * 2**20
"""Manifests and configs are refused above this; registries stop at 4 MiB."""


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
    LayerCountError, ForeignLayerError, UnsupportedMediaTypeError or MalformedDocumentError.
    """
    raise NotImplementedError


def parse_index(raw: bytes, *, place: str) -> ImageIndex:
    """The index or manifest list in the bytes; MalformedDocumentError if it is none."""
    raise NotImplementedError


def parse_manifest(raw: bytes, *, place: str) -> ImageManifest:
    """The image manifest in the bytes; its descriptor is computed from them.

    Raises MalformedDocumentError, ForeignLayerError or UnsupportedMediaTypeError.
    """
    raise NotImplementedError


def parse_config(raw: bytes, *, place: str) -> ImageConfig:
    """The image config in the bytes; MalformedDocumentError if it is none."""
    raise NotImplementedError


def image_of(manifest: ImageManifest, config: ImageConfig, *, place: str) -> Image:
    """Manifest and config as one image; LayerCountError if they disagree."""
    raise NotImplementedError
