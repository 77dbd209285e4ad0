"""What a plan makes of observed nodes, without nodes: every action as a change of values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from builder import labels
from deploy import actions
from deploy.state import ContainerFacts, ModelFileFacts
from tests.unit.deploy.clusters import image_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deploy.actions import AnyAction, CreateContainer, Plan
    from deploy.state import NodeState
    from deploy.wanted import Wanted


class WrongPlanError(AssertionError):
    """The plan asks for what a node would refuse."""


def applied(goal: Wanted, plan: Plan, states: Mapping[str, NodeState]) -> dict[str, NodeState]:
    """The nodes after a plan; WrongPlanError when an action could not be done in its place."""
    now = dict(states)
    for action in plan.actions:
        if isinstance(action, actions.Confirm):
            _require_only_running(action, now)
        else:
            now[action.node] = after(goal, now[action.node], action)
    return now


def _require_only_running(action: actions.Confirm, states: Mapping[str, NodeState]) -> None:
    running = {
        (name, item.name)
        for name, state in states.items()
        for item in state.containers
        if item.running
    }
    if running != set(action.ranks):
        raise WrongPlanError(running, action.ranks)


def after(goal: Wanted, state: NodeState, action: AnyAction) -> NodeState:  # noqa: C901, PLR0911 - one line per kind of action
    """A node after one action; WrongPlanError when the node would refuse it."""
    match action:
        case actions.SendModel() | actions.FetchModel() | actions.CopyModel():
            brought = state.model_staged | {file.path for file in action.files}
            return replace(state, model_transfer=True, model_staged=brought)
        case actions.PlaceModel():
            if not state.model_staged >= {file.path for file in action.files}:
                raise WrongPlanError(action.node, "not brought", action.files)
            placed = {f.path: ModelFileFacts(f.path, f.size_bytes, f.digest) for f in action.files}
            there = {file.path: file for file in state.model_files}
            files = tuple((there | placed).values())
            return replace(state, model_files=files, model_staged=frozenset())
        case actions.SettleModel():
            kept = state.model_kept & {action.keep}
            return replace(state, model_transfer=bool(kept), model_kept=kept)
        case actions.DropModel() | actions.RestoreModel():
            gone = {action.owner} if isinstance(action, actions.RestoreModel) else action.owners
            return replace(state, model_kept=state.model_kept.difference(gone))
        case actions.PullImage() | actions.LoadImage() | actions.TagImage():
            return replace(state, image=image_facts(goal), untagged=None)
        case actions.CreateContainer():
            return _with(state, None, _created(goal, state, action))
        case actions.StopContainer():
            return _with(state, action.name, replace(_named(state, action.name), running=False))
        case actions.StartContainer():
            started = replace(_named(state, action.name), running=True, paused=False)
            return _with(state, action.name, replace(started, started_at=_now(state)))
        case actions.AcceptContainer() | actions.RetireContainer():
            renamed = replace(_named(state, action.name), name=action.final_name)
            return _with(state, action.name, renamed)
        case actions.RemoveContainer():
            _named(state, action.name)
            return _with(state, action.name, None)
        case actions.Confirm() | actions.PullBase():
            return state


def _now(state: NodeState) -> str:
    """A time after every other of a node."""
    latest = max((item.started_at for item in state.containers), default="")
    return f"{int(latest or 0) + 1:09}"


def _named(state: NodeState, name: str) -> ContainerFacts:
    found = [item for item in state.containers if item.name == name]
    if len(found) != 1:
        raise WrongPlanError(state.node, name, found)
    return found[0]


def _with(state: NodeState, old: str | None, new: ContainerFacts | None) -> NodeState:
    kept = [item for item in state.containers if item.name != old]
    if new is not None and any(item.name == new.name for item in kept):
        raise WrongPlanError(state.node, new.name)
    return replace(state, containers=tuple(kept + ([] if new is None else [new])))


def _created(goal: Wanted, state: NodeState, action: CreateContainer) -> ContainerFacts:
    if not goal.image.is_image(state.image):
        raise WrongPlanError(action.node, "no image")
    own = dict(action.labels)
    assert state.image is not None
    return ContainerFacts(
        id=action.name,
        name=action.name,
        rank=int(own[labels.RANK]),
        generation=int(own[labels.GENERATION]),
        lock_digest=own[labels.LOCK_DIGEST],
        spec_digest=own[labels.SPEC_DIGEST],
        model_digest=own[labels.MODEL_DIGEST],
        image_id=state.image.engine_id,
        command=action.spec.command,
        running=False,
        exit_code=0,
    )
