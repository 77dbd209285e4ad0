"""What a node is like now: a few commands and engine calls, at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from deploy.parse import hca_facts, lines_by_file, listeners, netdev_facts
from deploy.state import NodeState

if TYPE_CHECKING:
    from builder.manifest import Node
    from deploy.edges.engine import Engine
    from deploy.edges.model import ModelFolder
    from deploy.edges.ssh import NodeConnection
    from deploy.state import (
        ContainerFacts,
        EngineFacts,
        HcaFacts,
        ImageFacts,
        Listener,
        NetdevFacts,
    )
    from deploy.wanted import Wanted

DEVICES: Final = "/sys/class/infiniband"
TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
PORT_FILES: Final = ("state", "link_layer", "rate")


def observe(
    wanted: Wanted, node: Node, connection: NodeConnection, engine: Engine, folder: ModelFolder
) -> NodeState:
    """Everything planning needs to know of one node; raises NodeError."""
    with ThreadPoolExecutor(2) as pool:
        model = pool.submit(folder.observe, wanted.model_files)
        netdevs = pool.submit(_netdevs, connection)
        facts, image, untagged, containers = _engine(engine, wanted)
        # Not before: the socket of a rank that ends in between would seem to be somebody else's.
        hcas, listening = _tables(connection, node)
        model_files, model_transfer = model.result()
        return NodeState(
            node=node.name,
            engine=facts,
            image=image,
            untagged=untagged,
            containers=containers,
            listeners=listening,
            hcas=hcas,
            netdevs=netdevs.result(),
            model_files=model_files,
            model_transfer=model_transfer,
        )


def _engine(
    engine: Engine, wanted: Wanted
) -> tuple[EngineFacts, ImageFacts | None, ImageFacts | None, tuple[ContainerFacts, ...]]:
    image = engine.image(wanted.image.reference)
    untagged = None
    if not wanted.image.is_image(image):
        by_id = (engine.image(name) for name in sorted(wanted.image.engine_ids))
        whole = (found for found in by_id if found is not None and not found.on_trial)
        untagged = next((found for found in whole if wanted.image.is_image(found)), None)
    return engine.facts(), image, untagged, engine.containers(wanted.manifest.name)


def _tables(
    connection: NodeConnection, node: Node
) -> tuple[tuple[HcaFacts, ...], tuple[Listener, ...]]:
    """RDMA devices and listening sockets: what the kernel tells in files."""
    hcas = () if node.fabric is None else node.fabric.hcas
    folders = (f"{DEVICES}/", *(f"{DEVICES}/{hca}/device/net/" for hca in hcas))
    search = ("find", *folders, "-mindepth", "1", "-maxdepth", "1", "-print0")
    found = connection.run(search, ok=(0, 1)).stdout.decode(errors="replace").split("\0")[:-1]
    ports = [f"{DEVICES}/{hca}/ports/1/{file}" for hca in hcas for file in PORT_FILES]
    # Status 2 says that a file is missing, which is for preflight to tell.
    shown = connection.run(("grep", "-s", "-H", "", *TABLES, *ports), ok=(0, 1, 2))
    files = lines_by_file(shown.stdout.decode(errors="replace"))
    sockets = [line for table in TABLES for line in files.get(table, [])]
    return hca_facts((_tidy(path) for path in found), files), listeners(sockets)


def _netdevs(connection: NodeConnection) -> tuple[NetdevFacts, ...]:
    return netdev_facts(connection.run(("ip", "-json", "-4", "address", "show")).stdout)


def _tidy(path: str) -> str:
    """A path as find prints it below a folder that was named with a slash at its end."""
    return path.replace("//", "/")
