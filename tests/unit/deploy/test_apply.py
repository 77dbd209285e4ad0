from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy.actions import (
    AcceptContainer,
    CreateContainer,
    PlaceModel,
    PullImage,
    SendModel,
    StartContainer,
    StopContainer,
)
from deploy.apply import Applied, apply
from deploy.confirm import Limits
from deploy.errors import (
    CleanupFailedError,
    DeployFailedError,
    DeployInterruptedError,
    NoCompletionError,
    NodesFailedError,
    OldPairDownError,
    StartFailedError,
)
from deploy.interrupts import Interrupts
from deploy.node_errors import EngineConflictError, EngineError
from deploy.plan import make_plan
from deploy.state import Completion, Outcome
from deploy.undo import Means
from tests.unit.deploy.clusters import container, empty, serving, wanted
from tests.unit.deploy.nodes import ANSWER, FakeNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from deploy.actions import AnyAction

OLD, NEW = wanted(image="old"), wanted(image="new")
A, B = "spark-a", "spark-b"
LIMITS = Limits(start_s=5, completion_s=1)


def fresh() -> dict[str, FakeNode]:
    return {name: FakeNode(NEW, state) for name, state in empty(NEW).items()}


def old_pair() -> dict[str, FakeNode]:
    return {name: FakeNode(NEW, state) for name, state in serving(OLD).items()}


def run(nodes: dict[str, FakeNode], limits: Limits = LIMITS) -> Applied:
    plan = make_plan(NEW, {name: node.state for name, node in nodes.items()})
    with Interrupts() as interrupts:
        return apply(plan, Means(nodes, limits, Silent(), interrupts))


def fails(kind: type[AnyAction], error: BaseException) -> Callable[[AnyAction], None]:
    def before(action: AnyAction) -> None:
        if isinstance(action, kind):
            raise error

    return before


def assert_as_before(nodes: dict[str, FakeNode]) -> None:
    assert nodes[A].running() == ["sparklock-pair-g1-r0"]
    assert nodes[B].running() == ["sparklock-pair-g1-r1"]
    assert all(len(node.state.containers) == 1 for node in nodes.values())


def test_a_plan_that_succeeds_ends_with_the_wanted_state_and_the_answer() -> None:
    nodes = fresh()
    applied = run(nodes)
    assert applied.answer == " Paris"
    assert make_plan(NEW, {name: node.state for name, node in nodes.items()}).up_to_date
    assert all(size > 0 for size in applied.sent_bytes.values())


def test_a_phase_begins_only_when_every_node_has_ended_the_one_before() -> None:
    nodes = old_pair()
    entered = threading.Event()

    def slow(action: AnyAction) -> None:
        if isinstance(action, PullImage):
            assert not entered.wait(0.2), "the other node went on to create"

    def quick(action: AnyAction) -> None:
        if isinstance(action, CreateContainer):
            entered.set()

    nodes[A].before, nodes[B].before = slow, quick
    run(nodes)
    assert entered.is_set()


def test_the_worker_has_started_before_the_head_starts() -> None:
    nodes = fresh()

    def before(action: AnyAction) -> None:
        if isinstance(action, StartContainer):
            assert nodes[B].running()

    nodes[A].before = before
    run(nodes)


@pytest.mark.parametrize(
    "kind", [SendModel, PullImage, CreateContainer, StopContainer, StartContainer]
)
@pytest.mark.parametrize("node", [A, B])
def test_whatever_fails_before_the_confirmation_leaves_the_old_pair_running(
    kind: type[AnyAction], node: str
) -> None:
    nodes = old_pair()
    if kind is SendModel:
        for each in nodes.values():
            each.state = replace(each.state, model_files=())
    error = EngineError(node, "do it", "no")
    nodes[node].before = fails(kind, error)
    with pytest.raises(DeployFailedError) as caught:
        run(nodes)
    assert caught.value.cause is error
    assert caught.value.exit_code == 5
    assert_as_before(nodes)


def test_an_old_pair_that_was_never_stopped_is_not_said_to_be_started_again() -> None:
    nodes = old_pair()
    nodes[A].before = fails(CreateContainer, EngineError(A, "create", "no"))
    with pytest.raises(DeployFailedError, match="the old pair was never stopped"):
        run(nodes)
    nodes = old_pair()
    nodes[A].before = fails(StartContainer, EngineError(A, "start", "no"))
    with pytest.raises(DeployFailedError, match="the old pair serves, and has answered"):
        run(nodes)


def test_an_old_pair_that_was_found_stopped_is_not_said_to_have_kept_running() -> None:
    nodes = old_pair()
    for node in nodes.values():
        down = tuple(replace(facts, running=False) for facts in node.state.containers)
        node.state = replace(node.state, containers=down)
    nodes[A].before = fails(CreateContainer, EngineError(A, "create", "no"))
    with pytest.raises(DeployFailedError, match="the old pair serves, and has answered"):
        run(nodes)
    assert_as_before(nodes)


def test_a_failed_first_deploy_leaves_nothing_and_says_that_nothing_served() -> None:
    nodes = fresh()
    nodes[B].before = fails(StartContainer, EngineError(B, "start", "no"))
    with pytest.raises(DeployFailedError, match="nothing ran before it"):
        run(nodes)
    assert all(node.state.containers == () for node in nodes.values())


def test_both_nodes_failures_are_told() -> None:
    nodes = fresh()
    barrier = threading.Barrier(2)
    for name, node in nodes.items():

        def before(action: AnyAction, name: str = name) -> None:
            if isinstance(action, CreateContainer):
                barrier.wait(5)
                raise EngineError(name, "create", f"no on {name}")

        node.before = before
    with pytest.raises(DeployFailedError) as caught:
        run(nodes)
    assert isinstance(caught.value.cause, NodesFailedError)
    assert "no on spark-a" in str(caught.value)
    assert "no on spark-b" in str(caught.value)


def test_a_container_of_that_name_that_is_somebody_elses_is_left_alone() -> None:
    nodes = fresh()
    foreign = replace(container(NEW, 0), name="sparklock-pair-g1-r0.trial")
    plan = make_plan(NEW, {name: node.state for name, node in nodes.items()})

    def before(action: AnyAction) -> None:
        if isinstance(action, CreateContainer):
            nodes[A].state = replace(nodes[A].state, containers=(foreign,))
            raise EngineConflictError(A, "create", "name in use")

    nodes[A].before = before
    with Interrupts() as interrupts, pytest.raises(DeployFailedError):
        apply(plan, Means(nodes, LIMITS, Silent(), interrupts))
    assert nodes[A].state.containers == (foreign,)
    assert nodes[B].state.containers == ()


def test_a_rank_that_dies_ends_the_wait_at_once_and_its_log_comes_first() -> None:
    nodes = old_pair()
    nodes[A].replies = [Completion(Outcome.NOT_UP), ANSWER]
    nodes[B].exits = {"sparklock-pair-g2-r1.trial": 137}
    with pytest.raises(DeployFailedError) as caught:
        run(nodes, Limits(start_s=60, completion_s=60))
    cause = caught.value.cause
    assert isinstance(cause, StartFailedError)
    diagnosis, first, second = cause.messages
    assert "rank 1 on spark-b was killed because the node ran out of memory" in diagnosis.found
    assert first.place == "node spark-b, rank 1"
    assert first.found == "exit code 137, out of memory"
    assert first.detail == "the last words of sparklock-pair-g2-r1.trial"
    assert second.place == "node spark-a, rank 0"
    assert_as_before(nodes)


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        ([Completion(Outcome.REFUSED, "HTTP 404: no such model")], "refused"),
        ([Completion(Outcome.TOO_LATE)], "within 1 s, 2 times"),
        ([Completion(Outcome.NOT_UP)], "of the start"),
    ],
)
def test_without_a_completion_the_old_pair_comes_back(answers: list[Completion], what: str) -> None:
    nodes = old_pair()
    nodes[A].replies = answers
    with pytest.raises(DeployFailedError) as caught:
        run(nodes, Limits(start_s=1.5, completion_s=1))
    cause = caught.value.cause
    assert isinstance(cause, NoCompletionError)
    assert what in cause.what
    assert_as_before(nodes)


def test_a_first_completion_that_is_late_and_errors_on_the_way_up_are_forgiven() -> None:
    nodes = fresh()
    nodes[A].replies = [
        Completion(Outcome.NOT_UP),
        Completion(Outcome.FAILED, "HTTP 503"),
        Completion(Outcome.TOO_LATE),
        Completion(Outcome.ANSWERED, " Paris", 1),
    ]
    assert run(nodes).answer == " Paris"


def test_placed_model_files_are_put_back() -> None:
    nodes = old_pair()
    nodes[B].state = replace(nodes[B].state, model_files=())
    nodes[A].replies = [Completion(Outcome.REFUSED)]
    with pytest.raises(DeployFailedError):
        run(nodes)
    (action,) = nodes[B].restored
    assert isinstance(action, PlaceModel)
    assert nodes[A].restored == []


def test_when_a_node_is_gone_the_old_pair_stays_down_and_it_is_said() -> None:
    nodes = old_pair()

    def vanish(action: AnyAction) -> None:
        if isinstance(action, StartContainer):
            nodes[B].unreachable = True
            raise EngineError(B, "start", "gone")

    nodes[B].before = vanish
    with pytest.raises(DeployFailedError) as caught:
        run(nodes)
    failures = caught.value.rollback.failures
    assert isinstance(failures[-1], OldPairDownError)
    assert failures[-1].nodes == (B,)
    assert nodes[A].running() == []
    assert "one rank serves nothing" in str(caught.value)
    assert "did not succeed everywhere" in str(caught.value)
    assert f"{B}: not yet removed sparklock-pair-g2-r1.trial" in str(caught.value)


def test_a_node_that_is_gone_before_the_switch_takes_nothing_down() -> None:
    nodes = old_pair()

    def vanish(action: AnyAction) -> None:
        if isinstance(action, PullImage):
            nodes[B].unreachable = True
            raise EngineError(B, "pull", "gone")

    nodes[B].before = vanish
    with pytest.raises(DeployFailedError) as caught:
        run(nodes)
    assert not any(isinstance(f, OldPairDownError) for f in caught.value.rollback.failures)
    assert nodes[A].running() == ["sparklock-pair-g1-r0"]


def test_after_the_confirmation_nothing_is_undone() -> None:
    nodes = old_pair()
    nodes[B].before = fails(AcceptContainer, EngineError(B, "rename", "no"))
    with pytest.raises(CleanupFailedError, match="the new pair serves"):
        run(nodes)
    assert "sparklock-pair-g2-r0" in nodes[A].running()
    nodes[B].before = lambda _: None
    run(nodes)
    assert nodes[B].running() == ["sparklock-pair-g2-r1"]


def test_a_pair_left_on_trial_that_does_not_answer_gives_way_to_the_old_one() -> None:
    nodes = old_pair()
    for rank, node in enumerate(nodes.values()):
        trial = container(NEW, rank, 2, name=f"sparklock-pair-g2-r{rank}.trial")
        (old,) = node.state.containers
        image = serving(NEW)[node.state.node].image
        stopped = replace(old, running=False)
        node.state = replace(node.state, image=image, containers=(stopped, trial))
    nodes[A].replies = [Completion(Outcome.REFUSED)]
    with pytest.raises(DeployFailedError):
        run(nodes)
    assert_as_before(nodes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("kind", [PullImage, CreateContainer, StopContainer, StartContainer])
def test_a_signal_rolls_back_and_a_second_one_does_not_stop_that(
    kind: type[AnyAction], number: signal.Signals
) -> None:
    nodes = old_pair()

    def interrupt(action: AnyAction) -> None:
        if isinstance(action, kind):
            os.kill(os.getpid(), number)

    def again(name: str) -> None:
        os.kill(os.getpid(), number)
        FakeNode.remove(nodes[A], name)

    nodes[A].before = interrupt
    nodes[A].remove = again  # type: ignore[method-assign] # on this one node
    with pytest.raises(DeployFailedError) as caught:
        run(nodes)
    assert isinstance(caught.value.cause, DeployInterruptedError)
    assert_as_before(nodes)


def test_a_signal_after_the_confirmation_lets_the_tidying_end() -> None:
    nodes = old_pair()

    def interrupt(action: AnyAction) -> None:
        if isinstance(action, AcceptContainer):
            os.kill(os.getpid(), signal.SIGINT)

    nodes[A].before = interrupt
    run(nodes)
    assert nodes[A].running() == ["sparklock-pair-g2-r0"]


def test_a_bug_is_rolled_back_too_and_keeps_its_traceback() -> None:
    nodes = old_pair()
    nodes[A].before = fails(StartContainer, ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        run(nodes)
    assert_as_before(nodes)
