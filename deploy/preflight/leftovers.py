"""Rules on what earlier runs have left: they hold memory and ports, or confuse whoever looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.actions import size_text
from deploy.preflight import known, rows
from deploy.preflight.finding import Spot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.manifest import ClusterManifest, Node
    from deploy.preflight.finding import Finding
    from deploy.state import NodeState


def leftovers(_manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """Containers of other launchers, trial containers, stray processes, files in shared memory."""
    spot = Spot(rows.LEFTOVERS, (node.name,))
    yield from _containers(spot, state)
    yield from _processes(spot, state)
    yield from _shared_memory(spot, state)


def _containers(spot: Spot, state: NodeState) -> Iterator[Finding]:
    for item in state.others:
        if item.name.startswith(known.LAUNCHERS):
            doing = "runs and holds memory" if item.running else "is left, stopped"
            yield spot.warning(
                f"a container of another launcher {doing}",
                found=item.name,
                remedy=f"end it with its own launcher, or on the node: docker rm -f {item.name}",
            )
    stale = [item.name for item in state.containers if not item.standing.confirmed]
    if stale:
        yield spot.note(
            "containers of a deploy that never was confirmed",
            found=", ".join(stale),
            remedy="nothing: the next inv deploy removes them",
        )


def _processes(spot: Spot, state: NodeState) -> Iterator[Finding]:
    """Ray's and vLLM's own, in no container that an engine here tells of."""
    if state.host is None:
        return
    known_ids = {item.id for item in state.containers} | {item.id for item in state.others}
    strays = [item for item in state.host.strays if item.container not in known_ids]
    if strays:
        pids = " ".join(str(item.pid) for item in strays)
        yield spot.warning(
            "processes of Ray or vLLM run outside of any container of the engine",
            found=", ".join(f"{item.name} ({item.pid})" for item in strays),
            remedy=f"if nobody needs them, on the node: ray stop, then kill {pids}",
        )


def _shared_memory(spot: Spot, state: NodeState) -> Iterator[Finding]:
    """Files in the node's own /dev/shm; ours have one of their own, so these are others'."""
    shm = state.host.shm if state.host else ()
    left = [(name, size) for name, size in shm if name.startswith(known.SHARED_MEMORY)]
    if left:
        names = ", ".join(name for name, _ in left[:3])
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""  # noqa: PLR2004
        yield spot.warning(
            "shared memory of earlier runs lies in /dev/shm, which is memory",
            found=f"{size_text(sum(size for _, size in left))}: {names}{more}",
            remedy="if nothing uses them (fuser -v /dev/shm/*), remove them on the node",
        )
