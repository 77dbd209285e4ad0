"""A lock made again from its own inputs: what `inv build` compares with the lock that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.assembly import as_stored, assemble_locked, inputs_digest
from builder.lock import OutputLayer, Outputs
from builder.oci.tar import write_tar

if TYPE_CHECKING:
    from builder.lock import Lock
    from builder.oci.assemble import AssembledImage
    from builder.sources import Blobs


def remade(lock: Lock, blobs: Blobs) -> tuple[Lock, AssembledImage]:
    """The lock with everything that its inputs decide, and the image that they make.

    It is the lock itself, unless somebody changed it by hand or the same inputs gave other bytes.
    Raises MissingBlobError when the store lacks an input, and what assembling raises.
    """
    made = relabelled(lock.model_copy(update={"image": as_stored(lock.image, blobs)}))
    assembled = assemble_locked(made.image, made.inputs_digest, blobs)
    return made.model_copy(update={"outputs": outputs_of(assembled)}), assembled


def relabelled(lock: Lock) -> Lock:
    """The lock with the digest of its own inputs."""
    return lock.model_copy(update={"inputs_digest": inputs_digest(lock.image, lock.formats)})


def outputs_of(assembled: AssembledImage) -> Outputs:
    """What a lock says of an assembled image."""
    image = assembled.image
    layers = tuple(
        OutputLayer(
            digest=own.layer.descriptor.digest,
            size_bytes=own.layer.descriptor.size_bytes,
            entries=len(own.entries),
        )
        for own in assembled.own
    )
    return Outputs(
        layers=layers,
        config_digest=image.config.digest,
        manifest_digest=image.manifest.descriptor.digest,
        manifest_size_bytes=image.manifest.descriptor.size_bytes,
        layers_total=len(image.layers),
        new_bytes=sum(layer.size_bytes for layer in layers),
    )


def keep(assembled: AssembledImage, blobs: Blobs) -> None:
    """Put what the image has beyond its base into a store."""
    for own in assembled.own:
        blobs.put(write_tar(own.entries), expected=own.layer.descriptor.digest)
    image = assembled.image
    blobs.put([image.config.raw], expected=image.config.digest)
    blobs.put([image.manifest.raw], expected=image.manifest.descriptor.digest)
