"""Archives and images of others, as tests need them: written by Python's tarfile, not by us."""

from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import dataclass, field
from typing import Any

from builder.digest import Digest, JsonValue, canonical_json, digest_bytes
from builder.oci.layers import LayerListing, read_layer
from builder.oci.model import (
    OCI_CONFIG,
    OCI_INDEX,
    OCI_LAYER_GZIP,
    OCI_LAYER_TAR,
    OCI_MANIFEST,
    Descriptor,
    Image,
    Layer,
)
from builder.oci.select import image_of, parse_config, parse_manifest
from tests.fakes import MemoryBlobs, MemorySource, pieces


def file(name: str, data: bytes = b"", *, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), mode, 1000
    return info, data


def special(name: str, kind: bytes, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mtime = kind, link, 1000
    info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o777
    return info, b""


def directory(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return special(name, tarfile.DIRTYPE)


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return special(name, tarfile.SYMTYPE, target)


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return special(name, tarfile.LNKTYPE, target)


def tar_of(
    *members: tuple[tarfile.TarInfo, bytes],
    format: int = tarfile.PAX_FORMAT,  # noqa: A002 - tarfile's own name
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer, mode="w", format=format, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def plain_layer(data: bytes) -> Layer:
    return Layer(Descriptor(OCI_LAYER_TAR, digest_bytes(data), len(data)), digest_bytes(data))


def gzip_layer(stored: bytes) -> Layer:
    descriptor = Descriptor(OCI_LAYER_GZIP, digest_bytes(stored), len(stored))
    return Layer(descriptor, digest_bytes(gzip.decompress(stored)))


def read(data: bytes, *keep: str, blobs: MemoryBlobs | None = None) -> LayerListing:
    """The listing of a plain tar; the files of these paths are kept."""
    return read_layer(
        pieces(data),
        plain_layer(data),
        keep=lambda path: path in keep,
        blobs=MemoryBlobs() if blobs is None else blobs,
    )


def listing(*members: tuple[tarfile.TarInfo, bytes]) -> LayerListing:
    return read(tar_of(*members))


def config_document(*diff_ids: Digest, **changes: JsonValue) -> dict[str, Any]:
    document: dict[str, Any] = {
        "os": "linux",
        "architecture": "amd64",
        "created": "2025-12-01T00:00:00Z",
        "config": {"Env": ["PATH=/bin"], "Entrypoint": ["/run"]},
        "rootfs": {"type": "layers", "diff_ids": list(diff_ids)},
        "history": [{"created_by": f"layer {index}"} for index in range(len(diff_ids))],
    }
    document |= changes
    return {key: value for key, value in document.items() if value is not None}


@dataclass
class Published:
    """A source and the images put into it."""

    source: MemorySource = field(default_factory=MemorySource)

    def add_json(self, document: JsonValue, media_type: str) -> Descriptor:
        raw = canonical_json(document)
        return Descriptor(media_type, self.source.add(raw), len(raw))

    def add_layer(self, stored: bytes, media_type: str = OCI_LAYER_TAR) -> Descriptor:
        return Descriptor(media_type, self.source.add(stored), len(stored))

    def manifest(
        self, config: JsonValue, *layers: Descriptor, config_type: str = OCI_CONFIG
    ) -> Descriptor:
        return self.add_json(
            {
                "schemaVersion": 2,
                "mediaType": OCI_MANIFEST,
                "config": self.add_json(config, config_type).as_json(),
                "layers": [layer.as_json() for layer in layers],
            },
            OCI_MANIFEST,
        )

    def index(self, *entries: tuple[Descriptor, str | None]) -> Descriptor:
        """An index of manifests with their platforms, written `os/architecture[/variant]`."""
        manifests: list[JsonValue] = []
        for descriptor, platform in entries:
            entry: dict[str, JsonValue] = {**descriptor.as_json()}
            if platform is not None:
                keys = ("os", "architecture", "variant")
                entry["platform"] = dict(zip(keys, platform.split("/"), strict=False))
            manifests.append(entry)
        return self.add_json(
            {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests}, OCI_INDEX
        )

    def image(self, *tars: bytes, **changes: JsonValue) -> Image:
        """An image of plain tar layers; it becomes the source's only root."""
        layers = [self.add_layer(data) for data in tars]
        diff_ids = [layer.digest for layer in layers]
        manifest = self.manifest(config_document(*diff_ids, **changes), *layers)
        self.source.tops = [manifest]
        parsed = parse_manifest(self.source.blobs[manifest.digest], place="test")
        config = parse_config(self.source.blobs[parsed.config.digest], place="test")
        return image_of(parsed, config, place="test")
