"""What is told of the old pair after a deploy that failed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy.actions import CreateContainer, StartContainer
from deploy.apply import apply
from deploy.confirm import Limits
from deploy.errors import DeployFailedError, Outcome, Rollback
from deploy.generations import history_of
from deploy.interrupts import Interrupts
from deploy.node_errors import EngineError
from deploy.plan import make_plan
from deploy.rollback import plan_rollback
from deploy.state import Completion
from deploy.state import Outcome as Answered
from deploy.undo import Means
from tests.unit.deploy.clusters import container, empty, serving, wanted
from tests.unit.deploy.nodes import ANSWER, FakeNode

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, NEW = wanted(image="old"), wanted(image="new")
A, B = "spark-a", "spark-b"
LIMITS = Limits(start_s=2, completion_s=1)
REFUSED = Completion(Answered.REFUSED, "HTTP 404: no such model")


def old_pair() -> dict[str, FakeNode]:
    return {name: FakeNode(NEW, state) for name, state in serving(OLD).items()}


def failed(nodes: dict[str, FakeNode], *, leave_failed: bool = False) -> Rollback:
    plan = make_plan(NEW, {name: node.state for name, node in nodes.items()})
    with Interrupts() as interrupts, pytest.raises(DeployFailedError) as caught:
        apply(plan, Means(nodes, LIMITS, Silent(), interrupts), leave_failed=leave_failed)
    assert caught.value.exit_code == 5
    return caught.value.rollback


def test_a_pair_that_was_restored_and_answers_is_said_to() -> None:
    nodes = old_pair()
    nodes[A].replies = [REFUSED, ANSWER]
    rollback = failed(nodes)
    assert rollback.outcome is Outcome.ANSWERS
    assert rollback.started_again
    assert rollback.old.generation == 1


def test_a_pair_that_was_restored_and_does_not_answer_is_said_not_to_with_the_reason() -> None:
    nodes = old_pair()
    nodes[A].replies = [REFUSED]
    rollback = failed(nodes)
    assert rollback.outcome is Outcome.SILENT
    assert rollback.silent is not None
    assert "refused to complete" in str(rollback.silent)
    assert nodes[A].running() == ["sparklock-pair-g1-r0"]


def test_a_pair_that_was_never_stopped_is_asked_too() -> None:
    nodes = old_pair()
    nodes[A].before = _fails(CreateContainer)
    assert failed(nodes).outcome is Outcome.ANSWERS
    nodes = old_pair()
    nodes[A].before = _fails(CreateContainer)
    nodes[A].replies = [REFUSED]
    assert failed(nodes).outcome is Outcome.SILENT


def test_a_pair_of_which_a_rank_was_gone_cannot_be_restored_and_why_is_said() -> None:
    nodes = old_pair()
    nodes[B].state = replace(nodes[B].state, containers=())
    nodes[A].replies = [REFUSED]
    rollback = failed(nodes)
    assert rollback.outcome is Outcome.IMPOSSIBLE
    assert rollback.old.why_not == "generation 1 has no container of rank 1 any more"


def test_a_first_deploy_that_fails_leaves_nothing() -> None:
    nodes = {name: FakeNode(NEW, state) for name, state in empty(NEW).items()}
    nodes[A].replies = [REFUSED]
    assert failed(nodes).outcome is Outcome.NOTHING_BEFORE
    assert all(node.state.containers == () for node in nodes.values())


def test_when_the_old_head_does_not_start_its_worker_is_stopped_again() -> None:
    nodes = old_pair()
    nodes[A].replies = [REFUSED]

    def start(name: str) -> None:
        raise EngineError(A, f"start {name}", "no")

    nodes[A].start = start  # type: ignore[method-assign] # on this one node
    assert failed(nodes).outcome is Outcome.DOWN
    assert nodes[B].running() == []


def test_ranks_that_failed_are_left_and_named_and_the_old_pair_stays_stopped() -> None:
    nodes = old_pair()
    nodes[A].replies = [REFUSED]
    assert failed(nodes, leave_failed=True).outcome is Outcome.LEFT
    assert nodes[A].running() == ["sparklock-pair-g2-r0.failed"]
    assert [item.name for item in nodes[B].state.containers if not item.running] == [
        "sparklock-pair-g1-r1"
    ]
    history = history_of({name: node.state.containers for name, node in nodes.items()})
    assert [item.failed for item in history.unconfirmed] == [True]


def test_nothing_is_left_when_no_rank_had_started() -> None:
    nodes = old_pair()
    nodes[A].before = _fails(CreateContainer)
    assert failed(nodes, leave_failed=True).outcome is Outcome.ANSWERS
    assert len(nodes[B].state.containers) == 1


def test_a_second_signal_ends_the_wait_for_the_old_pair_and_nothing_else() -> None:
    nodes = old_pair()

    def interrupt(action: object) -> None:
        if isinstance(action, StartContainer):
            os.kill(os.getpid(), signal.SIGINT)

    def start(name: str) -> None:
        FakeNode.start(nodes[A], name)
        os.kill(os.getpid(), signal.SIGINT)
        nodes[A].replies = [Completion(Answered.NOT_UP)]

    nodes[B].before = interrupt
    nodes[A].start = start  # type: ignore[method-assign] # on this one node
    assert failed(nodes).outcome is Outcome.UNASKED
    assert nodes[A].running() == ["sparklock-pair-g1-r0"]


def test_a_rollback_that_fails_brings_the_current_pair_back_and_stops_the_older_one() -> None:
    nodes = old_pair()
    for rank, node in enumerate(nodes.values()):
        older = container(NEW, rank, 0, name=f"sparklock-pair-g0-r{rank}.old", running=False)
        node.state = replace(node.state, containers=(older, *node.state.containers))
    nodes[A].replies = [REFUSED, ANSWER]
    history = history_of({name: node.state.containers for name, node in nodes.items()})
    with Interrupts() as interrupts, pytest.raises(DeployFailedError) as caught:
        apply(plan_rollback(history, 0, {}), Means(nodes, LIMITS, Silent(), interrupts))
    assert caught.value.rollback.outcome is Outcome.ANSWERS
    assert nodes[A].running() == ["sparklock-pair-g1-r0"]
    assert len(nodes[A].state.containers) == 2


def _fails(kind: type[CreateContainer]) -> Callable[[object], None]:
    def before(action: object) -> None:
        if isinstance(action, kind):
            raise EngineError(A, "create", "no")

    return before
