"""What a node is like now: a few commands and engine calls, at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from deploy.edges.host import ask_host
from deploy.state import NodeState

if TYPE_CHECKING:
    from builder.manifest import ClusterManifest, Node
    from deploy.edges.engine import Engine
    from deploy.edges.model import ModelFolder
    from deploy.edges.ssh import NodeConnection
    from deploy.state import ImageFacts
    from deploy.wanted import Wanted


def observe(
    wanted: Wanted, node: Node, connection: NodeConnection, engine: Engine, folder: ModelFolder
) -> NodeState:
    """Everything planning needs to know of one node; raises NodeError."""
    with ThreadPoolExecutor(1) as pool:
        model = pool.submit(folder.observe, wanted.model_files)
        image, untagged = _image(engine, wanted)
        state = observe_unlocked(wanted.manifest, node, connection, engine)
        model_files, model_transfer = model.result()
        found = {file.path: file.digest for file in model_files}
        lacking = [f for f in wanted.model_files if found.get(f.path) != f.digest]
        obstacle, beside_bytes = folder.readiness(lacking) if lacking else (None, 0)
        return replace(
            state,
            image=image,
            untagged=untagged,
            model_files=model_files,
            model_transfer=model_transfer,
            model_staged=folder.staged,
            model_hidden=folder.hidden,
            model_kept=folder.kept_for,
            model_obstacle=obstacle,
            model_beside_bytes=beside_bytes,
            caches=engine.caches(wanted.manifest.name),
        )


def _image(engine: Engine, wanted: Wanted) -> tuple[ImageFacts | None, ImageFacts | None]:
    """The image under the wanted tag, and the wanted one if it is there without it."""
    image = engine.image(wanted.image.reference)
    untagged = None
    if not wanted.image.is_image(image):
        by_id = (engine.image(name) for name in sorted(wanted.image.engine_ids))
        whole = (found for found in by_id if found is not None and not found.on_trial)
        untagged = next((found for found in whole if wanted.image.is_image(found)), None)
    return image, untagged


def observe_unlocked(
    manifest: ClusterManifest, node: Node, connection: NodeConnection, engine: Engine
) -> NodeState:
    """A node as it is without a lock: nothing is known of image and model files."""
    with ThreadPoolExecutor(1) as pool:
        facts = pool.submit(engine.facts)  # the engine starts programs for it
        containers = engine.containers(manifest.name)
        others = engine.others(manifest.name)
        # Not before: the socket of a rank that ends in between would seem to be somebody else's.
        machine = ask_host(manifest, node, connection, containers)
    return NodeState(
        node=node.name,
        engine=facts.result(),
        image=None,
        untagged=None,
        containers=containers,
        listeners=machine.listeners,
        hcas=machine.hcas,
        netdevs=machine.netdevs,
        model_files=(),
        model_transfer=False,
        host=machine.host,
        others=others,
    )
