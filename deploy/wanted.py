"""What the nodes have to be like: the lock and the manifest, as planning compares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.labels import image_reference
from deploy.launch import ContainerSpec, launch

if TYPE_CHECKING:
    from builder.digest import Digest
    from builder.lock import Lock, ModelFile
    from builder.manifest import ClusterManifest
    from deploy.state import ContainerFacts, ImageFacts


@dataclass(frozen=True, slots=True)
class WantedImage:
    """The locked image: its tag on the nodes, and every name an engine may give it."""

    reference: str
    manifest_digest: Digest
    config_digest: Digest
    diff_ids: tuple[Digest, ...]
    new_bytes: int

    @property
    def engine_ids(self) -> frozenset[str]:
        """The two ids it can have: by its config (graph driver) or its manifest (containerd)."""
        return frozenset((self.config_digest, self.manifest_digest))

    def is_image(self, facts: ImageFacts | None) -> bool:
        """Whether a node's image is this image, whichever store the node has."""
        return (
            facts is not None
            and facts.engine_id in self.engine_ids
            and facts.diff_ids == self.diff_ids
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """The whole wanted state; `lock_digest` is of lockfile.json's bytes."""

    manifest: ClusterManifest
    lock_digest: Digest
    image: WantedImage
    specs: tuple[ContainerSpec, ...]
    model_files: tuple[ModelFile, ...]

    def runs(self, container: ContainerFacts, spec: ContainerSpec) -> bool:
        """Whether a container is the running rank that a spec asks for, from image to lock."""
        return (
            container.running
            and not container.paused
            and container.rank == spec.rank
            and container.spec_digest == spec.digest
            and container.lock_digest == self.lock_digest
            and container.image_id in self.image.engine_ids
        )


def wanted(manifest: ClusterManifest, lock: Lock, lock_digest: Digest) -> Wanted:
    """The wanted state of a manifest and its lock."""
    base = tuple(layer.diff_id for layer in lock.image.base.layers)
    ours = tuple(layer.digest for layer in lock.outputs.layers)
    return Wanted(
        manifest=manifest,
        lock_digest=lock_digest,
        image=WantedImage(
            reference=image_reference(manifest.name, lock.outputs.manifest_digest),
            manifest_digest=lock.outputs.manifest_digest,
            config_digest=lock.outputs.config_digest,
            diff_ids=base + ours,
            new_bytes=lock.outputs.new_bytes,
        ),
        specs=launch(manifest, lock),
        model_files=lock.model.files,
    )
