"""How an image gets to a node: (what the node has, what reaches it) -> which way, and why.

In this order, each for what the one before cannot do:

1. the node's engine pulls by digest from us, through a port that ssh opens on the node;
2. a partial archive over the engine's socket, without the layers that are proven to be there;
3. the whole archive.

Layers of the base that the node lacks come from the base's own registry where the node reaches it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from operator import eq
from typing import TYPE_CHECKING, Final

from builder.digest import Digest
from deploy.state import ImageStore, RegistryAnswer, SupplyFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from builder.oci.model import Layer
    from deploy.state import EngineFacts, ImageFacts
    from deploy.wanted import WantedImage

ARCHIVE_COPIES: Final = 2
"""How often an archive's bytes lie on the node's disk: the graph driver writes it down before it
unpacks it, the containerd store keeps the blobs beside what it unpacks."""

MISSING_WORDS: Final = ("no such file", "not found", "does not exist")
"""How engines say that a blob is neither there nor in the archive."""

NAMED_BLOB: Final = re.compile(r"sha256[:/]([0-9a-f]{64})")

BROKEN_WORDS: Final = (
    "eof",
    "connection reset",
    "connection refused",
    "broken pipe",
    "closed network connection",
    "i/o timeout",
    "tls handshake timeout",
    "unreachable",
)
"""How Go programs say that a connection did not come about, or broke."""

ZSTD_SINCE: Final = 23
"""Docker's first major version that reads layers of zstd."""

UNASKED: Final = SupplyFacts(frozenset(), "", None, None)
"""Of a node that was not asked: nothing is there, and everything reaches it."""


class Way(Enum):
    """How our bytes of an image travel to a node."""

    PULL = "pulled from here"
    PARTIAL = "loaded as a partial archive"
    WHOLE = "loaded as a whole archive"


@dataclass(frozen=True, slots=True)
class Route:
    """The way of an image to a node: what travels from us, and what the node fetches itself.

    `left_out` are the layers that stay here, by the digest of their blobs; `base_bytes` is 0 when
    the node has the base, or gets it from us.
    """

    way: Way
    left_out: frozenset[Digest]
    size_bytes: int
    base_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """How an image came to a node, in fact; `size_bytes` is what travelled from us for it."""

    way: Way
    size_bytes: int


def route(image: WantedImage, supply: SupplyFacts) -> Route:
    """The way to a node that lacks the image."""
    lacking = [layer for layer in image.layers if layer.descriptor.digest not in supply.present]
    base = {layer.descriptor.digest for layer in image.layers[: image.base.layer_count]}
    from_registry: list[Layer] = []
    if supply.registry is not None and supply.registry.answer is not RegistryAnswer.NONE:
        from_registry = [layer for layer in lacking if layer.descriptor.digest in base]
    sent = [layer for layer in lacking if layer not in from_registry]
    left_out = frozenset(layer.descriptor.digest for layer in image.layers if layer not in sent)
    way = Way.PULL
    if supply.tunnel_problem:
        way = Way.PARTIAL if left_out else Way.WHOLE
    return Route(
        way=way,
        left_out=left_out,
        size_bytes=_bytes_of(sent),
        base_bytes=_bytes_of(from_registry),
        reason=_why(image, supply, lacking),
    )


def _bytes_of(layers: Iterable[Layer]) -> int:
    return sum(layer.descriptor.size_bytes for layer in layers)


def _why(image: WantedImage, supply: SupplyFacts, lacking: Sequence[Layer]) -> str:
    """What the choice came from, in a few words."""
    count = len(image.layers)
    words = ["not on the node" if len(lacking) == count else _has(count - len(lacking), count)]
    if supply.registry is not None and supply.registry.answer is RegistryAnswer.NONE:
        words.append(f"its base's registry: {supply.registry.said}")
    if supply.tunnel_problem:
        words.append(f"no port of ours reaches it: {supply.tunnel_problem}")
    return "; ".join(words)


def _has(there: int, count: int) -> str:
    return f"not on the node, which has {there} of its {count} layers"


def present_layers(
    image: WantedImage,
    store: ImageStore,
    found: Collection[ImageFacts],
    manifests: Mapping[str, frozenset[Digest]],
) -> frozenset[Digest]:
    """The layers that a node's images prove to be there, by the digest of their blobs.

    A graph driver finds a layer by its chain: all diff_ids up to it. The containerd store wants the
    very blob, so there only an image counts whose manifest we know: the base itself, or one of
    `manifests`, which has the blobs of a manifest by its digest.
    """
    if store is ImageStore.GRAPH_DRIVER:
        depth = max((_shared(image.diff_ids, facts.diff_ids) for facts in found), default=0)
        return frozenset(layer.descriptor.digest for layer in image.layers[:depth])
    blobs = {layer.descriptor.digest for layer in image.layers}
    there: set[Digest] = set()
    for facts in found:
        there |= manifests.get(facts.engine_id, frozenset())
        if facts.engine_id in image.base.engine_ids and facts.diff_ids == base_diff_ids(image):
            base = image.layers[: image.base.layer_count]
            there |= {layer.descriptor.digest for layer in base}
    return frozenset(blobs & there)


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """How many items two lists have in common at their beginning."""
    return sum(1 for _ in takewhile(bool, map(eq, first, second)))


def base_diff_ids(image: WantedImage) -> tuple[str, ...]:
    """The diff_ids of the base, bottom first."""
    return image.diff_ids[: image.base.layer_count]


def tunnel_failed(detail: str, *, contacted: bool) -> bool:
    """Whether a pull failed because of the tunnel; `contacted` says that a request came through.

    `detail` is what the engine said. Another way may help then, and does not help otherwise.
    """
    return not contacted or any(word in detail.lower() for word in BROKEN_WORDS)


def says_missing(detail: str) -> bool:
    """Whether an engine that failed to load says that something is not there."""
    return any(word in detail.lower() for word in MISSING_WORDS)


def retried_without(
    left_out: frozenset[Digest], detail: str, *, first: bool
) -> frozenset[Digest] | None:
    """What to leave out of the next archive after one failed; None when that one was whole.

    After the first failure the blob that it names is added, else everything.
    """
    if not left_out:
        return None
    named = {Digest(f"sha256:{found}") for found in NAMED_BLOB.findall(detail)}
    return left_out - named if first and named & left_out else frozenset()


def needed_bytes(route: Route, store: ImageStore) -> int:
    """Free space that bringing the image takes for certain; compressed layers take more."""
    once = route.size_bytes + route.base_bytes
    if store is ImageStore.GRAPH_DRIVER:
        return (
            once if route.way is Way.PULL else ARCHIVE_COPIES * route.size_bytes + route.base_bytes
        )
    return ARCHIVE_COPIES * once


def reads_zstd(engine: EngineFacts) -> bool:
    """Whether the engine can unpack layers of zstd; one whose version is no number may."""
    major = engine.version.partition(".")[0]
    return not major.isdecimal() or int(major) >= ZSTD_SINCE
