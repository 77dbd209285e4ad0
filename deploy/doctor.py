"""`inv doctor`: every node asked at the same time, also when some cannot be, and all that is found.

And the dear part of preflight, which a deploy that changes something shares.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from builder.edges.files import read_manifest
from builder.errors import LockError, NodeError
from deploy.doctor_report import DoctorReport, unlocked, unreached
from deploy.doctor_table import table
from deploy.edges.links import try_links
from deploy.preflight import preflight, preflight_unlocked, rows
from deploy.preflight.links import links
from deploy.reaching import reached, wanted_by
from deploy.together import each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from builder.errors import SparklockError
    from builder.manifest import ClusterManifest
    from builder.read.loaded import LoadedManifest
    from deploy.edges.node import RemoteNode
    from deploy.edges.ssh import NodeConnection
    from deploy.links import WayFacts
    from deploy.preflight.finding import Finding
    from deploy.reaching import Nodes
    from deploy.state import NodeState
    from deploy.wanted import Wanted


def doctor(file: Path) -> DoctorReport:
    """What every node is like and what is wrong with it; changes nothing.

    Without a current lock all is looked at but image and model. A node that cannot be asked is a
    finding of its own. Raises only what is wrong with the manifest.
    """
    loaded = read_manifest(file)
    manifest = loaded.manifest
    wanted: Wanted | None = None
    findings: list[Finding] = []
    try:
        _, wanted = wanted_by(file)
    except LockError as error:
        findings += unlocked(error)
    states, tried, failed = _looked(loaded, wanted)
    findings += failed
    silent = {name for item in failed if item.row == rows.ENGINE for name in item.nodes}
    checked = preflight(wanted, states) if wanted else preflight_unlocked(manifest, states)
    return DoctorReport(
        cluster=manifest.name,
        nodes=tuple(node.name for node in manifest.nodes),
        table=table(manifest, wanted, states, tried, silent),
        findings=(*findings, *checked, *links(manifest, tried)),
    )


def _looked(
    loaded: LoadedManifest, wanted: Wanted | None
) -> tuple[dict[str, NodeState], Sequence[WayFacts], list[Finding]]:
    """The nodes that could be observed, the ways tried between them, and what failed of both."""
    states: dict[str, NodeState] = {}
    tried: Sequence[WayFacts] = ()
    failed: list[Finding] = []
    row = rows.ENGINE
    with ExitStack() as stack:
        try:
            nodes, failures = stack.enter_context(reached(loaded))
            states, unobserved = _observed(wanted, nodes)
            failed += unreached((*failures, *unobserved), row)
            row = rows.LINKS
            if len(states) > 1:
                tried = try_links(loaded.manifest, _connections(nodes, states))
        except NodeError as error:
            failed += unreached((error,), row)
    return states, tried, failed


def checked_links(manifest: ClusterManifest, nodes: Nodes) -> tuple[Finding, ...]:
    """What is wrong with the ways between all nodes; nothing for a single one."""
    if len(nodes) < 2:  # noqa: PLR2004 - a way has two ends
        return ()
    return tuple(links(manifest, try_links(manifest, _connections(nodes, nodes))))


def _observed(
    wanted: Wanted | None, nodes: Nodes
) -> tuple[dict[str, NodeState], Sequence[SparklockError]]:
    def look(node: RemoteNode) -> NodeState:
        return node.observe_unlocked() if wanted is None else node.observe(wanted)

    return each({name: partial(look, node) for name, node in nodes.items()})


def _connections(nodes: Nodes, among: Mapping[str, object]) -> dict[str, NodeConnection]:
    return {name: node.connection for name, node in nodes.items() if name in among}
