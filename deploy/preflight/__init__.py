"""What makes nodes unfit, found before anything is changed: every finding of every node.

Each rule is a function of what was observed and yields findings; it stands in the module of its
subject. A rule that lacks a fact says so, as Level.UNKNOWN: nothing unread passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.preflight import engine, fabric, leftovers, memory, model, ports, rdma, rows
from deploy.preflight.alike import alike
from deploy.preflight.finding import Finding, Level, Spot, errors_of, warnings_of
from deploy.preflight.timeouts import timeouts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeAlias

    from builder.manifest import ClusterManifest, Node
    from deploy.state import NodeState
    from deploy.wanted import Wanted

    Rule: TypeAlias = Callable[[ClusterManifest, Node, NodeState], Iterable[Finding]]

__all__ = ["Finding", "Level", "errors_of", "preflight", "preflight_unlocked", "warnings_of"]

RULES: Final[tuple[Rule, ...]] = (
    engine.processor,
    engine.rootful,
    engine.gpu_runtime,
    engine.gpu_driver,
    memory.gpu_memory,
    memory.swapped,
    memory.registration,
    engine.memlock,
    engine.paths,
    ports.ports,
    leftovers.leftovers,
)
"""The rules on one node that need no lock, in the order of doctor's table."""


def preflight(wanted: Wanted, states: Mapping[str, NodeState]) -> tuple[Finding, ...]:
    """All findings on the nodes that could be observed, node by node, then those between nodes."""
    return tuple(_findings(wanted.manifest, wanted, states))


def preflight_unlocked(
    manifest: ClusterManifest, states: Mapping[str, NodeState]
) -> tuple[Finding, ...]:
    """As `preflight`, without what only a lock tells: image and model."""
    return tuple(_findings(manifest, None, states))


def _findings(
    manifest: ClusterManifest, wanted: Wanted | None, states: Mapping[str, NodeState]
) -> Iterator[Finding]:
    for node in manifest.nodes:
        if node.name in states:
            yield from _of_node(manifest, wanted, node, states[node.name])
    yield from alike(manifest, states)
    if wanted is not None:
        yield from timeouts(wanted)


def _of_node(
    manifest: ClusterManifest, wanted: Wanted | None, node: Node, state: NodeState
) -> Iterator[Finding]:
    if state.host is None:
        yield Spot(rows.MACHINE, (node.name,)).unknown(
            "nothing is known of the machine", "inv doctor asks again"
        )
    for rule in RULES:
        yield from rule(manifest, node, state)
    if node.fabric is not None and len(manifest.nodes) > 1:
        yield from rdma.hcas(node, node.fabric, state)
        yield from rdma.gids(manifest, node, state)
        yield from rdma.both_halves(node, node.fabric, state)
        yield from fabric.netdevs(node, node.fabric, state)
    if wanted is not None:
        yield from model.writable(wanted, node, state)
        yield from model.unshared(wanted, node, state)
        yield from model.visible(wanted, node, state)
        yield from model.room(wanted, node, state)
        yield from engine.image(wanted.image, node, state)
