"""plan and deploy: they wire planning and applying to the edges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from builder.privileges import weakenings
from deploy.actions import CreateContainer, LoadImage, PullImage
from deploy.apply import apply
from deploy.confirm import limits_of
from deploy.doctor import checked_links
from deploy.edges.api_key import require_api_key
from deploy.edges.node import Supplies
from deploy.errors import PreflightError
from deploy.generations import history_of, replaced_lock
from deploy.generations_errors import OlderLockError
from deploy.interrupts import Interrupts
from deploy.plan import make_plan
from deploy.preflight import errors_of, preflight, warnings_of
from deploy.reaching import connected, guarded, observed, require_answer, wanted_by
from deploy.reports import DeployReport, PlanReport, warned
from deploy.together import together
from deploy.undo import Means

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from builder.progress import Progress
    from builder.read.loaded import LoadedManifest
    from deploy.actions import AnyAction, Plan
    from deploy.preflight import Finding
    from deploy.reaching import Nodes
    from deploy.state import NodeState
    from deploy.wanted import Wanted


def plan(file: Path, *, older: bool = False) -> PlanReport:
    """What deploy would do on each node, changing nothing; PreflightError if a node is unfit.

    OlderLockError as for deploy, unless `older`.
    """
    loaded, wanted = wanted_by(file)
    with connected(loaded) as nodes:
        states = observed(wanted, nodes)
        warnings = _fit(preflight(wanted, states))
    todo = _planned(wanted, states, older=older)
    return PlanReport(wanted.manifest.name, todo, weakenings(wanted.manifest), warnings)


@dataclass(frozen=True, slots=True)
class Wishes:
    """How to deploy, where that is a choice.

    `older` deploys a lock that a newer generation has replaced; `leave_failed` leaves ranks that
    were started and failed as they are, and brings nothing back.
    """

    older: bool = False
    leave_failed: bool = False


def deploy(
    file: Path, progress: Progress, wishes: Wishes = Wishes(), *, break_guard: bool = False
) -> DeployReport:
    """Bring the locked image and model to every node, switch to it, and see it answer.

    `file` is the manifest; lockfile.json and .sparklock/ lie beside it. On any failure, and when
    interrupted, everything this call made is removed and the old pair runs; DeployFailedError says
    what was restored, and whether it answers. A second deploy of the same lock changes nothing;
    SilentPairError if the pair runs as locked and does not answer. OlderLockError if the lock is
    that of a generation that a newer one has superseded.
    """
    loaded, wanted = wanted_by(file)
    require_api_key(loaded.manifest)
    with (
        Interrupts() as interrupts,
        connected(loaded) as nodes,
        guarded(nodes, "deploy", by_force=break_guard),
    ):
        progress.stage("look at the nodes")
        states = observed(wanted, nodes)
        warnings = _fit(preflight(wanted, states))
        todo = _planned(wanted, states, older=wishes.older)
        if not todo.up_to_date:
            warnings += _fit(checked_links(wanted.manifest, nodes))
        if warnings:
            progress.note(warned(warnings))
        together({name: partial(node.remember_model, progress) for name, node in nodes.items()})
        serve = wanted.manifest.serve
        if todo.up_to_date:
            require_answer(todo, nodes, serve.completion_timeout_s)
        supply_nodes(file, loaded, todo.actions, nodes, progress)
        means = Means(nodes, limits_of(serve), progress, interrupts)
        applied = apply(todo, means, leave_failed=wishes.leave_failed)
    return DeployReport(
        cluster=wanted.manifest.name,
        generation=todo.generation,
        plan=todo,
        sent_bytes=tuple(applied.sent_bytes.items()),
        answer=applied.answer,
        deliveries=tuple(
            (name, node.delivered) for name, node in nodes.items() if node.delivered is not None
        ),
        detours=tuple((name, told) for name, node in nodes.items() for told in node.detours),
        weakenings=weakenings(wanted.manifest),
    )


def _fit(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The warnings among findings; PreflightError when one of them is an error."""
    errors = errors_of(findings)
    if errors:
        raise PreflightError(errors)
    return warnings_of(findings)


def _planned(wanted: Wanted, states: Mapping[str, NodeState], *, older: bool) -> Plan:
    """The plan; OlderLockError if it makes anew what a newer generation has replaced."""
    todo = make_plan(wanted, states)
    history = history_of({name: state.containers for name, state in states.items()})
    replaced = replaced_lock(history, wanted.lock_digest)
    makes_new = any(isinstance(action, CreateContainer) for action in todo.actions)
    if replaced and makes_new and not older:
        raise OlderLockError(*replaced)
    return todo


def supply_nodes(
    file: Path,
    loaded: LoadedManifest,
    actions: Sequence[AnyAction],
    nodes: Nodes,
    progress: Progress,
) -> None:
    """Let the nodes fetch what actions bring them; the image is built if the store lacks it."""
    brings_image = any(isinstance(action, PullImage | LoadImage) for action in actions)
    image = None
    if brings_image:
        # Only here: a plan and a second deploy build nothing and bring nothing.
        from deploy.supplying import built_supply  # noqa: PLC0415

        image = built_supply(file, progress)
    model = loaded.manifest.model.files
    folder = None if model is None else loaded.folder / model
    for node in nodes.values():
        node.supplies = Supplies(image, folder, nodes)
