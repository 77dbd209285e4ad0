"""What is wanted, and what of a lock follows from that alone: no source, no store is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from builder.lock import Lock, LockedAcceptance, LockedBase, LockedDonor, LockedModel, LockedNode
from builder.topology import ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from builder.digest import Digest
    from builder.graft.verdicts import Verdicts
    from builder.image_section import ImageSection, Source
    from builder.lock import ModelFile
    from builder.manifest import ClusterManifest

L = TypeVar("L", LockedBase, LockedDonor)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A manifest together with what it points to in the repository.

    `own_files` are the files of the repository that the image is made of, whose bytes are in
    the blob store already; `model_files` those of the model, once they are known. `place` turns a
    location such as `image.graft[0]` into the text of an error's place. With `verdicts` the closure
    check need not be made again for what it judged before.
    """

    manifest: ClusterManifest
    cluster_digest: Digest
    place: Callable[[str], str]
    own_files: Mapping[str, ModelFile] = field(default_factory=dict)
    model_files: tuple[ModelFile, ...] = ()
    architectures: tuple[str, ...] = ()
    model_type: str = ""
    verdicts: Verdicts | None = None


def as_asked(lock: Lock, wanted: Wanted) -> Lock:
    """The lock with all values that the manifest and its files alone decide, read from no source.

    It is the lock itself, unless somebody changed such a value in it by hand.
    """
    manifest = wanted.manifest
    section = manifest.image
    image = lock.image.model_copy(
        update={
            "platform": section.platform,
            "epoch": lock.image.epoch if section.epoch is None else section.epoch,
            "base": as_pinned(lock.image.base, section.base),
            "donors": tuple(
                as_pinned(donor, section.donors[donor.name])
                for donor in lock.image.donors
                if donor.name in section.donors
            ),
            "changes": section.config,
            "vllm_version": manifest.vllm.version,
            "accepted": locked_acceptances(section),
        }
    )
    return lock.model_copy(
        update={
            "name": manifest.name,
            "image": image,
            "model": _model_as_asked(lock.model, wanted),
            "nodes": locked_nodes(manifest),
        }
    )


def as_pinned(found: L, source: Source) -> L:
    """A locked image under the pin of the manifest: an index's, a manifest's, an engine's ID."""
    digests = [found.index_digest, found.manifest_digest]
    if source.of_engine:
        digests.append(found.config_digest)
    is_pin = source.digest is not None and source.digest in digests  # an image may have no index
    pinned = {} if is_pin else {"manifest_digest": source.digest}
    return found.model_copy(update={"asked": source.source, **pinned})


def locked_acceptances(section: ImageSection) -> tuple[LockedAcceptance, ...]:
    """What a lock says of the findings that the manifest accepts, by their names."""
    return tuple(
        LockedAcceptance(finding=item.finding, reason=item.reason)
        for item in sorted(section.accepts, key=lambda item: item.finding)
    )


def locked_model(wanted: Wanted) -> LockedModel:
    """What a lock says of the model."""
    model = wanted.manifest.model
    return LockedModel(
        repo=model.repo,
        revision=model.revision,
        include=model.include,
        exclude=model.exclude,
        architectures=wanted.architectures,
        model_type=wanted.model_type if model.repo else "",
        files=wanted.model_files,
    )


def _model_as_asked(found: LockedModel, wanted: Wanted) -> LockedModel:
    """What the manifest asks of the model; what only the Hub knows stays as it was found."""
    model = locked_model(wanted)
    if model.repo is None:
        return model
    of_the_hub = ("architectures", "model_type", "files")
    return model.model_copy(update={name: getattr(found, name) for name in of_the_hub})


def locked_nodes(manifest: ClusterManifest) -> tuple[LockedNode, ...]:
    """What a lock says of the nodes, in the order of their ranks."""
    return tuple(
        LockedNode(rank=rank.node_rank, name=rank.node.name, fabric=rank.host_ip, hcas=rank.hcas)
        for rank in ranks(manifest)
    )
