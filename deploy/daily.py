"""Daily verbs that look at the nodes or end what runs there; no image is built or brought."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from builder.edges.files import read_manifest
from deploy.generations import history_of, short
from deploy.generations_errors import UnknownGenerationError
from deploy.halfway import half_states
from deploy.plan import make_plan
from deploy.reaching import guarded, reached, wanted_by
from deploy.reports import LogsReport, NodeStatus, RankLog, StatusReport, StopReport
from deploy.together import each, failure_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from deploy.edges.logins import Logins
    from deploy.edges.node import RemoteNode
    from deploy.generations import History
    from deploy.state import ContainerFacts


def status(file: Path, logins: Logins | None = None) -> StatusReport:
    """What runs on each node now, compared with the lock; `logins` are those on their way.

    A node that cannot be asked is told in the report, unless no node can be.
    """
    loaded, wanted = wanted_by(file)
    with reached(loaded, logins) as (nodes, unreached):
        tasks = {name: partial(node.observe, wanted) for name, node in nodes.items()}
        states, unobserved = each(tasks)
    failure = failure_of((*unreached, *unobserved))
    shown = tuple(NodeStatus(s.node, s.engine, s.containers) for s in states.values())
    if failure is not None:
        return StatusReport(wanted.manifest.name, shown, None, failure)
    plan = make_plan(wanted, states)
    history = history_of({name: state.containers for name, state in states.items()})
    current = history.current
    other = current is not None and current.lock_digest != wanted.lock_digest
    return StatusReport(
        cluster=wanted.manifest.name,
        nodes=shown,
        plan=plan,
        halves=half_states(history, plan.generation),
        made_from=short(current.lock_digest) if current and other else "",
    )


def stop(file: Path, *, remove: bool = False, break_guard: bool = False) -> StopReport:
    """Stop every container of this cluster, and keep it; images and model stay.

    What was stopped is started again by a deploy of its lock or by a rollback. With `remove` every
    container goes, those that are kept for rollback as well. A node that cannot be reached keeps
    its own, and is told in the report.
    """
    loaded = read_manifest(file)
    end = _remove_all if remove else _stop_all
    with (
        reached(loaded) as (nodes, unreached),
        guarded(nodes, "stop", by_force=break_guard),
    ):
        ended, unstopped = each({name: partial(end, node) for name, node in nodes.items()})
    serving = history_of(ended).current
    return StopReport(
        cluster=loaded.manifest.name,
        containers=tuple((node, facts.name) for node, found in ended.items() for facts in found),
        removed=remove,
        failure=failure_of((*unreached, *unstopped)),
        served=0 if serving is None else serving.number,
    )


def logs(file: Path, *, tail: int, generation: int | None = None) -> LogsReport:
    """The last `tail` lines of every rank's log.

    Of a generation if one is given, else of the current one and of what was never confirmed. A node
    that cannot be asked is told in the report, unless no node can be reached. When all can,
    UnknownGenerationError if none has a container of that number.
    """
    loaded = read_manifest(file)
    with reached(loaded) as (nodes, unreached):
        containers, unlisted = each({name: node.containers for name, node in nodes.items()})
        history = history_of(containers)
        if generation is not None and not (unreached or unlisted or history.find(generation)):
            raise UnknownGenerationError(generation, [item.number for item in history.generations])
        shown = _shown(history, generation)
        tasks = {
            name: partial(_logs, nodes[name], name, tail, [c for n, c in shown if n == name])
            for name in containers
        }
        found, unread = each(tasks)
    every = [log for of_node in found.values() for log in of_node]
    every.sort(key=lambda log: log[0])
    return LogsReport(
        cluster=loaded.manifest.name,
        logs=tuple(log for _, log in every),
        kept=tuple(item.number for item in history.superseded),
        failure=failure_of((*unreached, *unlisted, *unread)),
    )


def _stop_all(node: RemoteNode) -> list[ContainerFacts]:
    """What ran, as it was seen before it was stopped."""
    found = [container for container in node.containers() if container.running]
    for container in found:
        node.stop(container.name)
    return found


def _remove_all(node: RemoteNode) -> list[ContainerFacts]:
    found = list(node.containers())
    for container in found:
        node.stop(container.name)
        node.remove(container.name)
    return found


def _shown(history: History, number: int | None) -> list[tuple[str, ContainerFacts]]:
    """The containers, with their nodes, whose logs are asked for."""
    kept = [item.number for item in history.superseded] if number is None else []
    return [
        (item.node, item.facts)
        for item in history.containers
        if item.facts.generation not in kept and number in {None, item.facts.generation}
    ]


def _logs(
    node: RemoteNode, name: str, tail: int, containers: Sequence[ContainerFacts]
) -> list[tuple[tuple[int, int], RankLog]]:
    """The logs of one node, each with what it is sorted by: generation and rank."""
    return [
        (
            (item.generation, item.rank),
            RankLog(name, item.name, item.rank, node.log(item.name, tail)),
        )
        for item in containers
    ]
