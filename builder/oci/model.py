"""The parts of the OCI image format that sparklock reads and writes.

Raw bytes are kept beside parsed values: a digest is over the bytes as they came, so nothing here
is ever serialised again to find one. Source: OCI image specification 1.1, Docker manifest v2.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from builder.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Mapping

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER_TAR = "application/vnd.oci.image.layer.v1.tar"
OCI_LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
OCI_LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER_GZIP = "application/vnd.docker.image.rootfs.diff.tar.gzip"
DOCKER_LAYER_TAR = "application/vnd.docker.image.rootfs.diff.tar"

INDEX_TYPES = frozenset({OCI_INDEX, DOCKER_INDEX})
MANIFEST_TYPES = frozenset({OCI_MANIFEST, DOCKER_MANIFEST})
CONFIG_TYPES = frozenset({OCI_CONFIG, DOCKER_CONFIG})
OCI_LAYER_TYPE_OF = {
    OCI_LAYER_TAR: OCI_LAYER_TAR,
    OCI_LAYER_GZIP: OCI_LAYER_GZIP,
    OCI_LAYER_ZSTD: OCI_LAYER_ZSTD,
    DOCKER_LAYER_GZIP: OCI_LAYER_GZIP,
    DOCKER_LAYER_TAR: OCI_LAYER_TAR,
}
"""Layer media types we accept, and the OCI type of each in our manifest; blobs stay as they are."""

LAYER_TYPE_OF_COMPRESSION = {"": OCI_LAYER_TAR, "gzip": OCI_LAYER_GZIP, "zstd": OCI_LAYER_ZSTD}
"""What a layer's media type is, by what builder.oci.decompress calls its compression."""


@dataclass(frozen=True, slots=True)
class Platform:
    """Operating system and processor; `text` is `linux/arm64` or `linux/arm/v7`."""

    os: str
    architecture: str
    variant: str = ""

    @property
    def text(self) -> str:
        """The platform as written in a manifest."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    @classmethod
    def parse(cls, text: str) -> Platform:
        """The platform of `os/architecture[/variant]`; ValueError if it is not of that form."""
        if not re.fullmatch(r"[a-z0-9]+/[a-z0-9_]+(/[a-z0-9]+)?", text):
            raise ValueError(text)
        return cls(*text.split("/"))


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A blob named by digest; the digest is of the bytes as stored, compressed or not."""

    media_type: str
    digest: Digest
    size_bytes: int

    def as_json(self) -> dict[str, str | int]:
        """The descriptor's JSON object."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size_bytes}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: the stored blob, and the digest of its uncompressed tar (diff_id)."""

    descriptor: Descriptor
    diff_id: Digest


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One manifest that an index lists; `platform` is None where the index states none."""

    descriptor: Descriptor
    platform: Platform | None


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """A list of manifests, usually one per platform, in the index's own order."""

    raw: bytes
    descriptor: Descriptor
    entries: tuple[IndexEntry, ...]


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """One platform's manifest: its raw bytes' digest, the config and the layers, bottom first."""

    raw: bytes
    descriptor: Descriptor
    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """An image's configuration: raw bytes and the parsed document (unknown keys kept)."""

    raw: bytes
    digest: Digest
    document: Mapping[str, Any]

    @property
    def diff_ids(self) -> tuple[Digest, ...]:
        """The diff_id of each layer, bottom first."""
        return tuple(Digest(item) for item in self.document["rootfs"]["diff_ids"])

    @property
    def platform(self) -> Platform:
        """The platform the configuration states."""
        doc = self.document
        return Platform(doc.get("os", ""), doc.get("architecture", ""), doc.get("variant", ""))

    @property
    def container(self) -> Mapping[str, Any]:
        """The `config` object: Entrypoint, Cmd, Env, WorkingDir and so on; or an empty mapping."""
        return self.document.get("config") or {}


@dataclass(frozen=True, slots=True)
class Image:
    """A complete image: manifest, config and layers that belong together."""

    manifest: ImageManifest
    config: ImageConfig
    layers: tuple[Layer, ...]
