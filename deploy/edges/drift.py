"""What a node's engine tells of a cluster's containers in full: a few calls over its socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from builder import labels
from deploy.drift_facts import Witnessed, inspected, strangers

if TYPE_CHECKING:
    import docker

    from deploy.drift_facts import Inspected
    from deploy.edges.engine import Engine
    from deploy.state import NodeState

COLUMNS: Final = "-eo pid,ppid,args"
"""What `ps` on the node is asked for each process of a container."""


def witness(cluster: str, state: NodeState, engine: Engine) -> Witnessed:
    """A node's containers and all that is in them that a person can have changed; NodeError.

    What a container has written is compared by the engine with the image: quick on overlay2, where
    it is a folder of its own, and a walk over the whole image where it is not.
    """
    listed = engine.ask("list containers", lambda api: api.containers(all=True))
    ours = [item for item in listed if (item.get("Labels") or {}).get(labels.CLUSTER) == cluster]
    found = [_inspected(engine, str(item["Id"])) for item in ours]
    images = frozenset(item.image_id for item in found)
    return Witnessed(
        state,
        tuple(sorted(found, key=lambda item: item.name)),
        strangers(listed, cluster, images),
    )


def _inspected(engine: Engine, container: str) -> Inspected:
    def ask(api: docker.APIClient) -> Inspected:
        record: Any = api.inspect_container(container)
        image: Any = api.inspect_image(record["Image"])  # type: ignore[no-untyped-call]
        running = record["State"]["Running"]
        top: Any = api.top(container, COLUMNS) if running else {}
        changes: Any = api.diff(container) if running else []
        return inspected(record, image, top, changes or [])

    return engine.ask(f"look into container {container[:12]}", ask)
