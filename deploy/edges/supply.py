"""What a node that lacks the image has of it, and how the rest can get there; asked of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.digest import Digest
from builder.errors import SparklockError
from deploy import node_errors
from deploy.delivery import present_layers
from deploy.state import ImageStore, SupplyFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from builder.edges.store import BlobStore
    from deploy.edges.engine import Engine
    from deploy.edges.ssh import NodeConnection
    from deploy.state import EngineFacts, RegistryFacts
    from deploy.wanted import WantedImage

    KnownBlobs = Callable[[str], frozenset[Digest]]

FORBIDDEN = "its sshd forbids it (AllowTcpForwarding)"


def known_blobs(store: BlobStore, engine_id: str) -> frozenset[Digest]:
    """The layers' blobs of a manifest that is in the store, since it was built here once.

    Whatever else the id names, and a manifest that cannot be read, has none.
    """
    # A plan that brings no image does without these models, which take a while to make.
    from builder.oci.documents import ManifestDocument, read_document  # noqa: PLC0415

    digest = Digest(engine_id)
    if not store.has(digest):
        return frozenset()
    try:
        raw = store.read(digest)
        found = read_document(ManifestDocument, raw, place=engine_id, wanted="a manifest")
    except SparklockError:
        return frozenset()
    return frozenset(layer.digest for layer in found.layers)


def no_blobs(_engine_id: str) -> frozenset[Digest]:
    """No blob: where no store is at hand, no manifest is known."""
    return frozenset()


def present(
    engine: Engine, store: ImageStore, image: WantedImage, known: KnownBlobs
) -> frozenset[Digest]:
    """The layers that are proven to be on the node, by the digest of their blobs."""
    listed = engine.image_ids()
    if store is ImageStore.GRAPH_DRIVER:
        return present_layers(image, store, engine.images(listed), {})
    manifests = {name: blobs for name in listed if (blobs := known(name))}
    found = engine.images(listed & (image.base.engine_ids | manifests.keys()))
    return present_layers(image, store, found, manifests)


def supply_facts(
    connection: NodeConnection,
    engine: Engine,
    facts: EngineFacts,
    image: WantedImage,
    known: KnownBlobs,
) -> SupplyFacts:
    """What planning needs to know to bring the image to a node; raises NodeError."""
    there = present(engine, facts.store, image, known)
    return SupplyFacts(
        present=there,
        tunnel_problem=tunnel_problem(connection),
        registry=_registry(engine, image, there),
        free_bytes=free_bytes(connection, facts.data_root),
    )


def tunnel_problem(connection: NodeConnection) -> str:
    """Why sshd opens no port on the node that leads here; empty if it does."""
    try:
        # Nobody connects to it, so it leads nowhere.
        with connection.forward_remote(1):
            return ""
    except node_errors.ForwardingForbiddenError:
        return FORBIDDEN


def free_bytes(connection: NodeConnection, folder: str) -> int | None:
    """Free space of the disk a folder is on, for its ordinary users; None if nobody can tell."""
    if not folder:
        return None
    said = connection.run(("stat", "-f", "-c", "%a %S", "--", folder), ok=range(256)).stdout
    words: Sequence[bytes] = said.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):  # noqa: PLR2004 - count, size
        return None
    return int(words[0]) * int(words[1])


def _registry(engine: Engine, image: WantedImage, there: frozenset[Digest]) -> RegistryFacts | None:
    base = image.layers[: image.base.layer_count]
    if image.base.reference is None or all(item.descriptor.digest in there for item in base):
        return None
    return engine.registry(image.base.reference)
