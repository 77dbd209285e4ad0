"""A small image that can run: links and mount points for this machine's own programs, no more."""

from __future__ import annotations

import json
import platform
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.digest import Digest, canonical_json, digest_bytes
from builder.oci.model import OCI_CONFIG, OCI_LAYER_TAR, OCI_MANIFEST, Descriptor, Layer
from deploy.edges.blobserver import Offer
from deploy.wanted import WantedBase, WantedImage
from tests.unit.oci.archives import directory, symlink, tar_of

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class SmallImage:
    """The image's blobs by digest, in a folder of files named by their digests."""

    folder: Path
    manifest: bytes
    config: bytes
    layer: bytes

    @property
    def wanted(self) -> WantedImage:
        digest = digest_bytes(self.manifest)
        descriptor = Descriptor(OCI_LAYER_TAR, digest_bytes(self.layer), len(self.layer))
        return WantedImage(
            reference="sparklock/small:0123456789ab",
            manifest_digest=digest,
            config_digest=digest_bytes(self.config),
            layers=(Layer(descriptor, descriptor.digest),),
            base=WantedBase(frozenset(), 0),
        )

    @property
    def offer(self) -> Offer:
        return Offer(
            manifest=self.manifest,
            manifest_digest=digest_bytes(self.manifest),
            media_type=OCI_MANIFEST,
            blobs=frozenset((digest_bytes(self.config), digest_bytes(self.layer))),
            places=(self.place,),
        )

    def place(self, digest: Digest) -> Path:
        return self.folder / digest


def small_image(folder: Path, *, word: str = "one") -> SmallImage:
    """An image for this machine's processor; another word gives another image."""
    links = [symlink(name, f"usr/{name}") for name in ("bin", "lib", "lib64", "sbin")]
    mounts = [directory(name) for name in ("usr/bin", "usr/lib", "usr/lib64")]
    layer = tar_of(directory("usr"), *mounts, *links, format=tarfile.USTAR_FORMAT)
    config = canonical_json(
        {
            "architecture": _architecture(),
            "os": "linux",
            "config": {"Env": ["PATH=/usr/bin:/bin"], "Labels": {"word": word}},
            "rootfs": {"type": "layers", "diff_ids": [digest_bytes(layer)]},
        }
    )
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": _descriptor(OCI_CONFIG, config),
            "layers": [_descriptor(OCI_LAYER_TAR, layer)],
        }
    ).encode()
    for blob in (layer, config):
        (folder / digest_bytes(blob)).write_bytes(blob)
    return SmallImage(folder, manifest, config, layer)


def _descriptor(media_type: str, blob: bytes) -> dict[str, str | int]:
    return {"mediaType": media_type, "digest": digest_bytes(blob), "size": len(blob)}


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
