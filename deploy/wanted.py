"""What the nodes have to be like: the lock and the manifest, as planning compares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder import labels as keys
from builder.digest import canonical_json, digest_bytes
from builder.labels import image_reference
from builder.oci.model import OCI_LAYER_TAR, Descriptor, Layer
from builder.oci.reference import ImageReference
from deploy.launch import ContainerSpec, launch

if TYPE_CHECKING:
    from builder.digest import Digest, JsonValue
    from builder.lock import Lock, LockedBase, ModelFile
    from builder.manifest import ClusterManifest
    from builder.secret import Secret
    from deploy.state import ContainerFacts, ImageFacts

NOT_REGISTRIES: Final = frozenset({"oci", "archive", "docker"})
"""How a source begins that only this machine can read."""


@dataclass(frozen=True, slots=True)
class WantedBase:
    """The base of the image, as an engine may have it already.

    `engine_ids` are its ids in the containerd store: the digest of its manifest, or of the index
    that it was chosen from. `reference` is its name in its registry, by digest; None if it comes
    from a folder, a file or an engine. Its layers are the first `layer_count` of the image.
    """

    engine_ids: frozenset[str]
    layer_count: int
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class WantedImage:
    """The locked image: its tag on the nodes, its layers, and every name an engine may give it."""

    reference: str
    manifest_digest: Digest
    config_digest: Digest
    layers: tuple[Layer, ...]
    base: WantedBase

    @property
    def diff_ids(self) -> tuple[Digest, ...]:
        """The digest of each layer's uncompressed tar, bottom first."""
        return tuple(layer.diff_id for layer in self.layers)

    @property
    def repository(self) -> str:
        """Its tag without what follows the colon, such as `sparklock/lab`."""
        return self.reference.rpartition(":")[0]

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
    """The whole wanted state; `lock_digest` is of lockfile.json's bytes.

    `api_key` is what the head's server shall want from requests; None if that is nothing, or is not
    known here.
    """

    manifest: ClusterManifest
    lock_digest: Digest
    image: WantedImage
    specs: tuple[ContainerSpec, ...]
    model_files: tuple[ModelFile, ...]
    api_key: Secret | None = None

    def has_key(self, container: ContainerFacts, spec: ContainerSpec) -> bool:
        """Whether a container wants the API key that it shall want, as far as that is known."""
        return not spec.secrets or self.api_key in (None, container.api_key)

    @property
    def model_digest(self) -> Digest:
        """The digest of the list of the model's files: paths and digests."""
        listed: list[JsonValue] = [[file.path, file.digest] for file in self.model_files]
        return digest_bytes(canonical_json(listed))

    def labels(self, spec: ContainerSpec, generation: int) -> dict[str, str]:
        """All labels that a spec's container gets when it is made now."""
        return spec.labels(self.lock_digest, generation) | {keys.MODEL_DIGEST: self.model_digest}

    def matches(self, container: ContainerFacts, spec: ContainerSpec) -> bool:
        """Whether a container is what a spec asks for: image, settings and model.

        Not the lock's digest: a lock may change in what reaches no container, such as the reason
        for which a finding was accepted, and that is no reason to restart a pair.
        """
        return (
            container.rank == spec.rank
            and container.spec_digest == spec.digest
            and container.model_digest == self.model_digest
            and container.image_id in self.image.engine_ids
            and self.has_key(container, spec)
        )

    def runs(self, container: ContainerFacts, spec: ContainerSpec) -> bool:
        """Whether a container is the running rank that a spec asks for."""
        return container.awake and self.matches(container, spec)


def wanted(manifest: ClusterManifest, lock: Lock, lock_digest: Digest) -> Wanted:
    """The wanted state of a manifest and its lock."""
    base = lock.image.base
    theirs = tuple(
        Layer(Descriptor(layer.media_type, layer.digest, layer.size_bytes), layer.diff_id)
        for layer in base.layers
    )
    ours = tuple(
        Layer(Descriptor(OCI_LAYER_TAR, layer.digest, layer.size_bytes), layer.digest)
        for layer in lock.outputs.layers
    )
    return Wanted(
        manifest=manifest,
        lock_digest=lock_digest,
        image=WantedImage(
            reference=image_reference(manifest.name, lock.outputs.manifest_digest),
            manifest_digest=lock.outputs.manifest_digest,
            config_digest=lock.outputs.config_digest,
            layers=theirs + ours,
            base=WantedBase(
                engine_ids=frozenset(filter(None, (base.manifest_digest, base.index_digest))),
                layer_count=len(base.layers),
                reference=_in_registry(base),
            ),
        ),
        specs=launch(manifest, lock),
        model_files=lock.model.files,
    )


def _in_registry(base: LockedBase) -> str | None:
    """The base's name in its registry, by the digest of its manifest; None if it is in none."""
    if base.asked.partition(":")[0] in NOT_REGISTRIES:
        return None
    found = ImageReference.parse(base.asked)
    return f"{found.host}/{found.repository}@{base.manifest_digest}"
