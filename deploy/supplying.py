"""A locked image, built if it has to be, as the nodes fetch it from us."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from builder.edges.layout import LayoutSource
from builder.pipeline import build
from deploy.edges.blobserver import Offer, Stream
from deploy.edges.delivery import ImageSupply
from deploy.edges.reach import engine_of_node

if TYPE_CHECKING:
    from pathlib import Path

    from builder.progress import Progress
    from builder.reports import Built


def built_supply(file: Path, progress: Progress) -> ImageSupply:
    """The image of a manifest's lock; it is built if the store lacks it."""
    return supply_of(build(file, progress, locked=True, reach=engine_of_node))


def supply_of(built: Built) -> ImageSupply:
    """A built image as nodes are given it: pulled blob by blob, or loaded as an archive."""
    return ImageSupply(offer_of(built), built.image, built.open_blob)


def offer_of(built: Built) -> Offer:
    """A built image as the blob server offers it: our blobs from the store, else the base's."""
    image = built.image
    places, streams = [built.store.path], {}
    layers = {layer.descriptor.digest: layer.descriptor for layer in image.layers}
    if isinstance(built.base, LayoutSource):
        places.append(built.base.path)
    else:
        streams = {
            digest: Stream(descriptor.size_bytes, partial(built.base.open_blob, descriptor))
            for digest, descriptor in layers.items()
        }
    return Offer(
        manifest=image.manifest.raw,
        manifest_digest=image.manifest.descriptor.digest,
        media_type=image.manifest.descriptor.media_type,
        blobs=frozenset((image.config.digest, *layers)),
        places=places,
        streams=streams,
    )
