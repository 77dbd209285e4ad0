"""What a node shows of a rank, as a few lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.actions import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deploy.scene import RankScene, Socket

SSH_PORT: Final = 22
"""Where the lab, and some Sparks, are reached by their fabric address: no rank's."""

MOST: Final = 6
"""Of one kind of thing that is listed."""


def shown(scene: RankScene) -> Iterator[str]:
    """The facts that help to see why a rank ended or waits, a line each."""
    state, kernel = scene.state, scene.kernel
    if scene.fault:
        yield f"more could not be asked: {scene.fault}"
    if state is not None and state.error:
        yield f"engine: {state.error}"
    if state is not None and state.paused:
        yield "the container is paused"
    if state is not None and state.restarts:
        yield f"the engine started it again {state.restarts} times"
    if scene.alive:
        yield from _listed("process", [item.text for item in kernel.processes])
    yield from _listed("socket", [item.text for item in _between_nodes(scene)])
    if kernel.available_bytes is not None and kernel.memory_bytes is not None:
        free, whole = size_text(kernel.available_bytes), size_text(kernel.memory_bytes)
        yield f"memory: {free} of {whole} available"
    for path, free_bytes in kernel.disks:
        yield f"disk: {size_text(free_bytes)} free at {path}"
    yield from _listed("GPU process", kernel.gpu_processes)


def _between_nodes(scene: RankScene) -> list[Socket]:
    """The sockets that have to do with the rank's own address, connections before listeners."""
    own = [
        item
        for item in scene.kernel.sockets
        if scene.host_ip in (item.local, item.remote)
        and item.state != "TIME-WAIT"
        and item.local_port != SSH_PORT
    ]
    return sorted(own, key=lambda item: item.state == "LISTEN")


def _listed(kind: str, items: Sequence[str]) -> Iterator[str]:
    for item in items[:MOST]:
        yield f"{kind}: {item}"
    if len(items) > MOST:
        yield f"{kind}: and {len(items) - MOST} more"
