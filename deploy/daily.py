"""Daily verbs that look at the nodes or end what runs there; no image is built or brought."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from builder.edges.files import read_manifest
from deploy.plan import make_plan
from deploy.reaching import connected, guarded, reached, wanted_by
from deploy.reports import LogsReport, NodeStatus, RankLog, StatusReport, StopReport
from deploy.together import each, failure_of, together

if TYPE_CHECKING:
    from pathlib import Path

    from deploy.edges.node import RemoteNode


def status(file: Path) -> StatusReport:
    """What runs on each node now, compared with the lock.

    A node that cannot be asked is told in the report, unless no node can be.
    """
    loaded, wanted = wanted_by(file)
    with reached(loaded) as (nodes, unreached):
        tasks = {name: partial(node.observe, wanted) for name, node in nodes.items()}
        states, unobserved = each(tasks)
    failure = failure_of((*unreached, *unobserved))
    return StatusReport(
        cluster=wanted.manifest.name,
        nodes=tuple(NodeStatus(s.node, s.engine, s.containers) for s in states.values()),
        plan=make_plan(wanted, states) if failure is None else None,
        failure=failure,
    )


def stop(file: Path, *, break_guard: bool = False) -> StopReport:
    """Stop and remove every container of this cluster; images and model stay.

    A node that cannot be reached keeps its own, and is told in the report.
    """
    loaded = read_manifest(file)
    with (
        reached(loaded) as (nodes, unreached),
        guarded(nodes, "stop", by_force=break_guard),
    ):
        tasks = {name: partial(_remove_all, node) for name, node in nodes.items()}
        removed, unstopped = each(tasks)
    pairs = ((node, container) for node, names in removed.items() for container in names)
    failure = failure_of((*unreached, *unstopped))
    return StopReport(loaded.manifest.name, tuple(pairs), failure)


def logs(file: Path, *, tail: int) -> LogsReport:
    """The last `tail` lines of every rank's log."""
    loaded = read_manifest(file)
    with connected(loaded) as nodes:
        found = together({name: partial(_logs, node, name, tail) for name, node in nodes.items()})
    every = [log for of_node in found.values() for log in of_node]
    every.sort(key=lambda log: log[0])
    return LogsReport(loaded.manifest.name, tuple(log for _, log in every))


def _remove_all(node: RemoteNode) -> list[str]:
    names = [container.name for container in node.containers()]
    for name in names:
        node.stop(name)
        node.remove(name)
    return names


def _logs(node: RemoteNode, name: str, tail: int) -> list[tuple[tuple[int, int], RankLog]]:
    """The logs of one node, each with what it is sorted by: generation and rank."""
    return [
        (
            (item.generation, item.rank),
            RankLog(name, item.name, item.rank, node.log(item.name, tail)),
        )
        for item in node.containers()
    ]
