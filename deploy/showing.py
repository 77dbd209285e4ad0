"""What a node shows of a rank, as a few lines for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from deploy.actions import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deploy.scene import NodeScene, RankScene, Socket
    from deploy.state import RankState

SSH_PORT: Final = 22
"""Where the lab, and some Sparks, are reached by their fabric address: no rank's."""

MARKS: Final = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"Initializing a V1 LLM engine", "the engine is being made"),
        (r"distributed_init_method=", "it goes to meet the others"),
        (r"in world size \d+ is assigned as", "it has met the others"),
        (r"Starting to load model", "it loads the weights"),
        (r"Loading weights took", "it has loaded the weights"),
        (r"Dynamo bytecode transform|Compiling a graph|torch\.compile takes", "it compiles"),
        (r"GPU KV cache size", "it has room for its KV cache"),
        (r"Capturing CUDA graphs|Graph capturing", "it captures CUDA graphs"),
        (r"init engine .* took", "the engine is ready"),
        (r"No available shared memory broadcast block", "the engine waits for a worker"),
        (r"Application startup complete", "the API is up"),
    )
)
"""How far a rank came by vLLM's own log: a hint, since its words change between versions."""

MOST: Final = 6
"""Of one kind of thing that is listed."""


def shown(scene: RankScene) -> Iterator[str]:
    """The facts that help to see why a rank ended or waits, a line each."""
    if scene.fault:
        yield f"more could not be asked: {scene.fault}"
    if scene.state is not None:
        yield from _of_the_engine(scene.state)
    if scene.alive:
        yield from _listed("process", [item.text for item in scene.kernel.processes])
    hint = _by_its_log(scene.log)
    if hint:
        yield f"by its log: {hint}"
    yield from _listed("socket", [item.text for item in _between_nodes(scene)])
    yield from _of_the_node(scene.kernel)


def _of_the_engine(state: RankState) -> Iterator[str]:
    if state.error:
        yield f"engine: {state.error}"
    if state.paused:
        yield "the container is paused"
    if state.restarts:
        yield f"the engine started it again {state.restarts} times"


def _of_the_node(kernel: NodeScene) -> Iterator[str]:
    if kernel.available_bytes is not None and kernel.memory_bytes is not None:
        free, whole = size_text(kernel.available_bytes), size_text(kernel.memory_bytes)
        yield f"memory: {free} of {whole} available"
    for path, free_bytes in kernel.disks:
        yield f"disk: {size_text(free_bytes)} free at {path}"
    yield from _listed("GPU process", kernel.gpu_processes)


def _by_its_log(log: Sequence[str]) -> str:
    """The last that a log tells of how far the rank came; empty if it tells nothing of that."""
    for line in reversed(log):
        for mark, said in MARKS:
            if mark.search(line):
                return said
    return ""


def _between_nodes(scene: RankScene) -> list[Socket]:
    """The connections of the rank's own address; what it listens on, if it has none."""
    own = [
        item
        for item in scene.kernel.sockets
        if scene.host_ip in (item.local, item.remote)
        and item.state != "TIME-WAIT"
        and item.local_port != SSH_PORT
    ]
    return [item for item in own if item.state != "LISTEN"] or own


def _listed(kind: str, items: Sequence[str]) -> Iterator[str]:
    for item in items[:MOST]:
        yield f"{kind}: {item}"
    if len(items) > MOST:
        yield f"{kind}: and {len(items) - MOST} more"
