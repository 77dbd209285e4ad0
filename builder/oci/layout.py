"""The files of an OCI image layout beside its blobs, and the list that Docker's archives have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from builder.digest import canonical_json, hex_of
from builder.oci.model import OCI_INDEX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from builder.digest import Digest
    from builder.oci.model import Image

MARKER: Final = "oci-layout"
INDEX: Final = "index.json"
VERSION: Final = "1.0.0"
BLOBS: Final = "blobs/sha256/"

SAVED: Final = "manifest.json"
"""What a docker-archive lists its images in. Archives of both kinds have the layout's files too."""

REF_NAME: Final = "org.opencontainers.image.ref.name"
CONTAINERD_NAME: Final = "io.containerd.image.name"


def blob_path(digest: Digest) -> str:
    """Where a blob stands in a layout, relative to it."""
    return f"{BLOBS}{hex_of(digest)}"


def marker_text() -> bytes:
    """The bytes of `oci-layout`."""
    return canonical_json({"imageLayoutVersion": VERSION})


def index_text(image: Image, annotations: Mapping[str, str]) -> bytes:
    """The bytes of `index.json` for one image; the annotations are those of its descriptor."""
    platform = image.config.platform
    entry: dict[str, Any] = image.manifest.descriptor.as_json() | {
        "platform": {"os": platform.os, "architecture": platform.architecture}
        | ({"variant": platform.variant} if platform.variant else {})
    }
    if annotations:
        entry["annotations"] = dict(annotations)
    return canonical_json({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]})


def saved_text(image: Image, tags: tuple[str, ...]) -> bytes:
    """The bytes of Docker's `manifest.json` for one image whose blobs stand as in a layout."""
    listed = {
        "Config": blob_path(image.config.digest),
        "RepoTags": list(tags),
        "Layers": [blob_path(layer.descriptor.digest) for layer in image.layers],
    }
    return canonical_json([listed])
