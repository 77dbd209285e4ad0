"""Deploys of several models, each killed or failing anywhere: whose files are in place then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from builder.digest import digest_bytes
from builder.lock import ModelFile
from deploy import actions
from deploy.actions import TIDYING, Phase
from deploy.generations import history_of
from deploy.generations_errors import NoGenerationError, OtherModelError
from deploy.plan import make_plan
from deploy.rollback import plan_rollback
from deploy.state import KeptModel, Standing
from tests.unit.deploy.clusters import serving, wanted
from tests.unit.deploy.disks import Disk
from tests.unit.deploy.simulation import after

if TYPE_CHECKING:
    from deploy.actions import AnyAction, Plan
    from deploy.generations import History
    from deploy.state import NodeState
    from deploy.wanted import Wanted

NODES = ("spark-a", "spark-b")
FOLDER = "/srv/models/m"


def model(*paths: str, of: str) -> tuple[ModelFile, ...]:
    """A model's files; those of different models differ in every byte."""
    return tuple(
        ModelFile(path=path, size_bytes=7, digest=digest_bytes(f"{of} {path}".encode()))
        for path in paths
    )


MODELS = (
    model("config", "a", of="first"),
    model("config", "b", of="second"),
    model("config", "a", "b", "c", of="third"),
)
GOALS = tuple(
    replace(wanted(), model_files=files, lock_digest=digest_bytes(f"lock {number}".encode()))
    for number, files in enumerate(MODELS)
)
FILES: dict[str, tuple[ModelFile, ...]] = {goal.model_digest: goal.model_files for goal in GOALS}


@dataclass
class Nodes:
    """Both nodes, with their model folders."""

    states: dict[str, NodeState]
    disks: dict[str, Disk]

    @classmethod
    def that_serve(cls, goal: Wanted) -> Nodes:
        places = {file.path: file.digest for file in goal.model_files}
        return cls(serving(goal), {node: Disk(dict(places)) for node in NODES})

    def history(self) -> History:
        return history_of({name: state.containers for name, state in self.states.items()})

    def plan(self, goal: Wanted) -> Plan:
        shown = {node: self.disks[node].shown(goal, self.states[node]) for node in NODES}
        self.states = shown
        return make_plan(goal, shown)

    def rollback(self) -> Plan:
        kept = {
            node: KeptModel(FOLDER, frozenset(k for k, v in disk.kept.items() if v))
            for node, disk in self.disks.items()
        }
        return plan_rollback(self.history(), None, kept)

    def run(self, goal: Wanted, plan: Plan, cut: Cut) -> list[AnyAction]:
        """Do a plan up to a cut; the actions that were begun."""
        begun: list[AnyAction] = []
        last = cut[0] % (len(plan.steps) or 1)
        for place, step in enumerate(plan.steps[: last + 1]):
            for node, some in zip(NODES, cut[1:], strict=True):
                own = [a for a in step.actions if a.node == node and a.__class__ is not CONFIRM]
                for action in own[: some if place == last else None]:
                    self.disks[node].perform(action)
                    self.states[node] = after(goal, self.states[node], action)
                    begun.append(action)
        return begun

    def undo(self, goal: Wanted, plan: Plan, begun: list[AnyAction]) -> None:
        """What `deploy.undo` does after a failure."""
        for action in begun:
            if isinstance(action, actions.CreateContainer):
                gone = actions.RemoveContainer(action.node, "", action.name)
                self.states[action.node] = after(goal, self.states[action.node], gone)
        for action in begun:
            if isinstance(action, actions.PlaceModel):
                self.disks[action.node].restore(action)
        for back in plan.restore.model:
            self.disks[back.node].perform(back)
        for node, name in plan.restore.ranks:
            start = actions.StartContainer(node, "", name)
            self.states[node] = after(goal, self.states[node], start)

    def assert_have_model_of(self, number: int) -> None:
        """Every node has the files of a generation's model in their places."""
        generation = self.history().find(number)
        assert generation is not None
        for disk in self.disks.values():
            assert disk.has(FILES[generation.model_digest])


CONFIRM = actions.Confirm
Cut = tuple[int, int, int]
cuts = st.tuples(st.integers(0, 12), st.integers(0, 4), st.integers(0, 4))
goals = st.integers(0, 2)
histories = st.lists(st.tuples(goals, cuts), max_size=3)


def after_kills(kills: list[tuple[int, Cut]]) -> Nodes:
    """The nodes, which served the first model, after deploys that were killed."""
    nodes = Nodes.that_serve(GOALS[0])
    for goal, cut in kills:
        nodes.run(GOALS[goal], nodes.plan(GOALS[goal]), cut)
    return nodes


def confirmed_at(plan: Plan) -> int:
    """The place of the first step of which nothing is undone, the one that confirms included."""
    past = {Phase.CONFIRM, *TIDYING}
    return next(n for n, step in enumerate(plan.steps) if step.phase in past)


@given(histories, goals, cuts)
@settings(max_examples=400)
def test_after_killed_deploys_one_that_fails_leaves_the_model_of_the_pair_it_brings_back(
    kills: list[tuple[int, Cut]], goal: int, cut: Cut
) -> None:
    nodes = after_kills(kills)
    plan = nodes.plan(GOALS[goal])
    if plan.steps and plan.restore.ranks and confirmed_at(plan):
        event("restores")
        early = (cut[0] % confirmed_at(plan), *cut[1:])
        begun = nodes.run(GOALS[goal], plan, early)
        nodes.undo(GOALS[goal], plan, begun)
        nodes.assert_have_model_of(plan.restore.generation)


@given(histories)
@settings(max_examples=400)
def test_after_killed_deploys_a_rollback_that_is_not_refused_has_its_model_in_place(
    kills: list[tuple[int, Cut]],
) -> None:
    nodes = after_kills(kills)
    try:
        plan = nodes.rollback()
    except (OtherModelError, NoGenerationError) as error:
        event(type(error).__name__)
        return
    event("returns")
    nodes.run(GOALS[0], plan, (len(plan.steps) - 1, 9, 9))
    nodes.assert_have_model_of(plan.generation)


@given(goals, cuts)
def test_the_pair_before_a_killed_deploy_can_always_be_returned_to(goal: int, cut: Cut) -> None:
    nodes = after_kills([(goal, cut)])
    current = nodes.history().current
    assert current is not None
    if current.number == 1 and nodes.history().unconfirmed:
        assert nodes.rollback().generation == 1


@given(histories, goals, cuts)
@settings(max_examples=200)
def test_a_deploy_after_killed_ones_leaves_its_model_and_nothing_beside_it(
    kills: list[tuple[int, Cut]], goal: int, cut: Cut
) -> None:
    nodes = after_kills([*kills, (goal, cut)])
    plan = nodes.plan(GOALS[goal])
    nodes.run(GOALS[goal], plan, (len(plan.steps) - 1, 9, 9))
    nodes.assert_have_model_of(plan.generation)
    assert nodes.plan(GOALS[goal]).up_to_date
    for disk in nodes.disks.values():
        assert not disk.inbox
        assert not any(disk.kept.values())


def test_whose_files_are_kept_is_in_the_plan_and_what_is_of_nobody_any_more_goes_first() -> None:
    nodes = Nodes.that_serve(GOALS[0])
    second = nodes.plan(GOALS[1])
    nodes.run(GOALS[1], second, (confirmed_at(second) + 1, 9, 9))
    assert all(any(disk.kept.values()) for disk in nodes.disks.values())
    third = nodes.plan(GOALS[2])
    assert [type(action) for action in third.steps[0].actions] == [actions.DropModel] * 2
    assert third.restore.generation == 2
    for state in nodes.states.values():
        standings = [item.standing for item in state.containers]
        assert Standing.CURRENT in standings
    with pytest.raises(OtherModelError):
        plan_rollback(nodes.history(), 1, {})
