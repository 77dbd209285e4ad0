"""inv weights: the locked model on every node, without a deployment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from deploy.actions import CopyModel, FetchModel, SendModel
from deploy.edges.node import Supplies
from deploy.errors import PreflightError
from deploy.interrupts import Interrupts
from deploy.pipeline import supply_nodes
from deploy.preflight import errors_of
from deploy.preflight import model as rules
from deploy.reaching import connected, guarded, observed, wanted_by
from deploy.together import together
from deploy.weights import weights_steps
from deploy.weights_report import NodeWeightsReport, WeightsReport

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping
    from pathlib import Path

    from builder.progress import Progress
    from deploy.actions import AnyAction, Step
    from deploy.reaching import Nodes
    from deploy.state import NodeState
    from deploy.wanted import Wanted


def check_weights(file: Path) -> WeightsReport:
    """What of the locked model is missing or different on each node; changes nothing.

    A file that was hashed before and has not changed since is not hashed again.
    """
    loaded, wanted = wanted_by(file)
    with connected(loaded) as nodes:
        states = observed(wanted, nodes)
    return WeightsReport(wanted.manifest.name, _reports(wanted, states), checked=True)


def weights(file: Path, progress: Progress, *, break_guard: bool = False) -> WeightsReport:
    """Bring the locked model's files to every node, as `deploy` would, and nothing else.

    They are put in place where no container of the cluster runs; else they wait beside their place
    for `deploy`. What was interrupted goes on where it was. Raises NodeError.
    """
    loaded, wanted = wanted_by(file)
    with (
        Interrupts() as interrupts,
        connected(loaded) as nodes,
        guarded(nodes, "weights", by_force=break_guard),
    ):
        progress.stage("look at the nodes")
        states = observed(wanted, nodes)
        _require_fit(wanted, states)
        together({name: partial(node.remember_model, progress) for name, node in nodes.items()})
        serving = any(item.running for state in states.values() for item in state.containers)
        steps = weights_steps(wanted, states, place=not serving)
        supply_nodes(file, loaded, [a for step in steps for a in step.actions], nodes, progress)
        interrupts.defer()
        sent = _run(steps, nodes, progress, interrupts.stopped)
        for node in nodes.values():
            node.supplies = Supplies(None, None)
    reports = tuple(
        NodeWeightsReport(
            node=report.node,
            folder=report.folder,
            size_bytes=report.size_bytes,
            missing=report.missing,
            different=report.different,
            travelled_bytes=sent[report.node],
            staged=serving and bool(report.missing or report.different),
        )
        for report in _reports(wanted, states)
    )
    return WeightsReport(wanted.manifest.name, reports, checked=False)


def _require_fit(wanted: Wanted, states: Mapping[str, NodeState]) -> None:
    """Nothing, if the files can be put on every node and disturb nobody; PreflightError."""
    found = [
        finding
        for node in wanted.manifest.nodes
        for rule in (rules.writable, rules.unshared, rules.visible, rules.room)
        for finding in rule(wanted, node, states[node.name])
    ]
    errors = errors_of(found)
    if errors:
        raise PreflightError(errors)


def _run(
    steps: tuple[Step, ...], nodes: Nodes, progress: Progress, stopped: threading.Event
) -> dict[str, int]:
    """All steps, each on all nodes at once; the bytes of the model that travelled to each."""
    sent = dict.fromkeys(nodes, 0)

    def on_node(name: str, actions: list[AnyAction]) -> None:
        for action in actions:
            progress.note(f"{name}: {action.what}")
            travelled = nodes[name].perform(action, progress, stopped)
            if isinstance(action, SendModel | FetchModel | CopyModel):
                sent[name] += travelled

    for step in steps:
        progress.stage(step.phase.value)
        by_node: dict[str, list[AnyAction]] = {}
        for action in step.actions:
            by_node.setdefault(action.node, []).append(action)
        tasks = {name: partial(on_node, name, actions) for name, actions in by_node.items()}
        together(tasks, on_failure=stopped.set)
    return sent


def _reports(wanted: Wanted, states: Mapping[str, NodeState]) -> tuple[NodeWeightsReport, ...]:
    found = []
    for node in wanted.manifest.nodes:
        there = {file.path: file.digest for file in states[node.name].model_files}
        absent = [file.path for file in wanted.model_files if file.path not in there]
        others = [f.path for f in wanted.model_files if there.get(f.path, f.digest) != f.digest]
        found.append(
            NodeWeightsReport(
                node=node.name,
                folder=wanted.manifest.model_path(node),
                size_bytes=sum(file.size_bytes for file in wanted.model_files),
                missing=tuple(absent),
                different=tuple(others),
            )
        )
    return tuple(found)
