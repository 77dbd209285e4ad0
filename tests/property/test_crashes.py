"""A deploy or rollback that is killed anywhere, on any of the nodes: what comes after it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.digest import digest_bytes
from deploy.actions import Confirm, Plan
from deploy.generations import History, history_of
from deploy.plan import make_plan
from deploy.rollback import plan_rollback
from tests.property.test_plan import assert_serves
from tests.unit.deploy.clusters import serving, wanted
from tests.unit.deploy.simulation import after, applied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deploy.state import NodeState

OLD = replace(wanted(image="old"), lock_digest=digest_bytes(b"older lock"))
NEW = wanted(image="new")
NODES = ("spark-a", "spark-b")


def history(states: Mapping[str, NodeState]) -> History:
    return history_of({name: state.containers for name, state in states.items()})


def killed(
    plan: Plan, states: Mapping[str, NodeState], cuts: tuple[int, int, int]
) -> dict[str, NodeState]:
    """The nodes when a plan was killed in one of its phases, on each node after some actions."""
    now = dict(states)
    number = cuts[0] % len(plan.steps)
    for place, step in enumerate(plan.steps[: number + 1]):
        for node, cut in zip(NODES, cuts[1:], strict=True):
            own = [a for a in step.actions if a.node == node and not isinstance(a, Confirm)]
            for action in own[: cut if place == number else None]:
                now[node] = after(NEW, now[node], action)
    return now


def powered_off(states: Mapping[str, NodeState], off: tuple[bool, bool]) -> dict[str, NodeState]:
    """The nodes after some of them have lost power: nothing runs there any more."""
    return {
        name: replace(
            state,
            containers=tuple(
                replace(item, running=item.running and not is_off) for item in state.containers
            ),
        )
        for (name, state), is_off in zip(states.items(), off, strict=True)
    }


cuts = st.tuples(st.integers(0, 20), st.integers(0, 2), st.integers(0, 2))
offs = st.tuples(st.booleans(), st.booleans())


@given(cuts, offs)
@settings(max_examples=300)
def test_after_a_killed_deploy_a_deploy_reaches_the_new_pair_and_a_rollback_the_old(
    cut: tuple[int, int, int], off: tuple[bool, bool]
) -> None:
    before = serving(OLD)
    left = powered_off(killed(make_plan(NEW, before), before, cut), off)
    finish = make_plan(NEW, left)
    done = applied(NEW, finish, left)
    assert_serves(done, finish.generation)
    assert make_plan(NEW, done).up_to_date
    back = plan_rollback(history(left), 1, {})
    restored = applied(OLD, back, left)
    assert_serves(restored, 1)
    assert plan_rollback(history(restored), 1, {}).up_to_date


@given(cuts, cuts, offs)
@settings(max_examples=300)
def test_after_a_killed_rollback_either_pair_can_be_reached(
    first: tuple[int, int, int], second: tuple[int, int, int], off: tuple[bool, bool]
) -> None:
    before = serving(OLD)
    deployed = applied(NEW, make_plan(NEW, before), before)
    left = killed(plan_rollback(history(deployed), None, {}), deployed, first)
    left = powered_off(left, off)
    onward = plan_rollback(history(left), 1, {})
    if not onward.up_to_date:
        left = killed(onward, left, second)
    assert_serves(applied(NEW, plan_rollback(history(left), 1, {}), left), 1)
    assert_serves(applied(NEW, plan_rollback(history(left), 2, {}), left), 2)
    again = make_plan(NEW, left)
    done = applied(NEW, again, left)
    assert_serves(done, again.generation)
    assert make_plan(NEW, done).up_to_date


@given(cuts, cuts, offs)
def test_a_deploy_killed_twice_is_still_finished(
    first: tuple[int, int, int], second: tuple[int, int, int], off: tuple[bool, bool]
) -> None:
    states: dict[str, NodeState] = serving(OLD)
    for cut in (first, second):
        plan = make_plan(NEW, states)
        if plan.steps:
            states = powered_off(killed(plan, states, cut), off)
    last = make_plan(NEW, states)
    assert_serves(applied(NEW, last, states), last.generation)
    assert_serves(applied(OLD, plan_rollback(history(states), 1, {}), states), 1)
