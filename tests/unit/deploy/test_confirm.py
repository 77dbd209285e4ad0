from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder import labels
from deploy.confirm import Limits, confirm, why_silent
from deploy.errors import (
    DeployInterruptedError,
    NoCompletionError,
    RankChangedError,
    RankLogError,
    StartFailedError,
)
from deploy.scene import Socket, Stage
from deploy.serving import meeting_point
from deploy.state import Completion, LogLine, Outcome
from tests.unit.deploy.clusters import serving, wanted
from tests.unit.deploy.nodes import ANSWER, STARTED, FakeNode

if TYPE_CHECKING:
    from deploy.state import RankState

PAIR = wanted()
A, B = "spark-a", "spark-b"
RANKS = [(A, "sparklock-pair-g1-r0"), (B, "sparklock-pair-g1-r1")]
LIMITS = Limits(start_s=5, completion_s=1)
LATER = "2026-01-01T00:00:02.000000000Z"
NOT_UP = Completion(Outcome.NOT_UP)


class Meeting(FakeNode):
    """A node whose rank is connected to the head."""

    def sockets(self) -> tuple[Socket, ...]:
        point = meeting_point(PAIR.specs[1].command)
        assert point is not None
        return (Socket("198.18.0.2", 40000, point.address, point.port, "ESTABLISHED"),)


class Failing(FakeNode):
    """A node whose rank logs a failure with each completion of the pair."""

    def log_since(self, name: str, after: str, tail: int) -> tuple[LogLine, ...]:
        if tail > 1:
            self.logs[name] = (
                LogLine("2026-01-01T00:00:01.000000000Z", "ERROR at the start, overcome"),
                LogLine(LATER, "(Worker_TP1 pid=7) ERROR 01-01 [worker.py:1] AssertionError"),
            )
        return super().log_since(name, after, tail)


class Replaced(FakeNode):
    """A node whose container is another one at the second look."""

    looks = 0

    def rank(self, name: str) -> RankState:
        state = super().rank(name)
        self.looks += 1
        identity = replace(state.identity, id=f"look {min(self.looks, 2)}")
        return replace(state, identity=identity)


def pair(kind: type[FakeNode] = FakeNode) -> dict[str, FakeNode]:
    states = serving(PAIR)
    return {A: FakeNode(PAIR, states[A]), B: kind(PAIR, states[B])}


def run(nodes: dict[str, FakeNode], limits: Limits = LIMITS) -> list[str]:
    """The stages that were told, of a start that is confirmed."""
    told: list[str] = []
    answer = confirm(RANKS, nodes, limits, threading.Event(), told=told.append)
    assert answer is ANSWER
    return [line.partition(",")[0] for line in told]


def test_a_pair_that_is_up_already_has_no_meeting_to_be_seen() -> None:
    assert run(pair()) == [Stage.API.value, Stage.ANSWERED.value]


def test_every_stage_is_told_once_it_is_seen() -> None:
    nodes = pair(Meeting)
    nodes[A].replies = [NOT_UP, NOT_UP, ANSWER]
    assert run(nodes) == [Stage.MET.value, Stage.API.value, Stage.ANSWERED.value]


def test_ranks_that_do_not_meet_are_told_after_their_own_time() -> None:
    nodes = pair()
    nodes[A].replies = [NOT_UP]
    with pytest.raises(NoCompletionError, match=r"have not met within 0\.5 s") as caught:
        run(nodes, Limits(start_s=60, completion_s=1, meet_s=0.5))
    assert caught.value.stage is Stage.STARTED


def test_ranks_that_met_and_do_not_come_up_are_told_after_theirs() -> None:
    nodes = pair(Meeting)
    nodes[A].replies = [NOT_UP]
    with pytest.raises(NoCompletionError, match=r"0\.5 s after the ranks met") as caught:
        run(nodes, Limits(start_s=60, completion_s=1, meet_s=0.1, api_s=0.5))
    assert caught.value.stage is Stage.MET


def test_a_server_that_fails_every_completion_is_not_waited_for_until_the_starts_end() -> None:
    nodes = pair()
    nodes[A].replies = [Completion(Outcome.FAILED, "HTTP 500: dead")]
    with pytest.raises(NoCompletionError, match=r"not completed a prompt within 0\.4 s") as caught:
        run(nodes, Limits(start_s=600, completion_s=0.2))
    assert caught.value.said == "HTTP 500: dead"
    assert "HTTP 500: dead" in caught.value.messages[1].detail


def test_requests_that_come_together_have_to_be_answered_too() -> None:
    nodes = pair()
    nodes[A].replies = [ANSWER, Completion(Outcome.FAILED, "HTTP 500: dead")]
    with pytest.raises(NoCompletionError, match="of 2 at once not all were"):
        run(nodes)


def test_a_rank_that_logs_a_failure_while_it_answers_is_named_with_its_line() -> None:
    with pytest.raises(RankLogError) as caught:
        run(pair(Failing))
    (message,) = caught.value.messages
    assert message.place == "node spark-b, rank 1"
    assert message.detail == "(Worker_TP1 pid=7) ERROR 01-01 [worker.py:1] AssertionError"


def test_what_was_overcome_before_the_request_is_no_failure_but_nccls_is() -> None:
    nodes = pair()
    name = RANKS[1][1]
    nodes[B].logs[name] = (LogLine(LATER, "ERROR 01-01 [x.py:1] no flash_attn, and none needed"),)
    run(nodes)
    nodes[B].logs[name] = (LogLine(LATER, "vm:7:7 [0] NCCL WARN socket closed"),)
    with pytest.raises(RankLogError):
        run(nodes)
    nodes[B].logs[name] = (LogLine(STARTED, "vm:7:7 [0] NCCL WARN of the start before this one"),)
    run(nodes)


def test_a_rank_that_is_replaced_while_it_is_confirmed_is_told() -> None:
    with pytest.raises(RankChangedError) as caught:
        run(pair(Replaced))
    (message,) = caught.value.messages
    assert (message.expected, message.found) == ("look 1", "look 2")
    assert "the container's id" in message.what


def test_a_container_without_the_labels_it_was_created_with_is_told() -> None:
    created = {RANKS[1]: {labels.RANK: "1", labels.LOCK_DIGEST: "sha256:other"}}
    with pytest.raises(RankChangedError) as caught:
        confirm(RANKS, pair(), LIMITS, threading.Event(), created=created)
    assert caught.value.expected == "sha256:other"
    assert (caught.value.node, caught.value.rank) == (B, 1)


def test_a_node_that_is_lost_ends_the_wait_with_what_the_others_show() -> None:
    nodes = pair()
    nodes[A].replies = [NOT_UP]
    nodes[B].unreachable = True
    with pytest.raises(StartFailedError) as caught:
        run(nodes, Limits(start_s=60, completion_s=1))
    error = caught.value
    assert error.verdict.what == "rank 1 on spark-b is gone, or its node is"
    assert [end.rank for end in error.ends] == [1, 0]
    assert "no route" in error.messages[1].detail
    assert error.ends[0].fault
    assert error.ends[1].log == f"the last words of {RANKS[0][1]}"


def test_a_user_who_has_had_enough_is_heard() -> None:
    nodes = pair()
    nodes[A].replies = [NOT_UP]
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(DeployInterruptedError):
        confirm(RANKS, nodes, Limits(60, 1), stopped)


def test_a_pair_that_does_not_answer_any_more_is_diagnosed_from_all_nodes() -> None:
    nodes = pair()
    said = why_silent(RANKS, nodes, Completion(Outcome.FAILED, "HTTP 500: dead"))
    assert said.evidence == ("HTTP 500: dead",)
    nodes[B].unreachable = True
    gone = why_silent(RANKS, nodes, Completion(Outcome.TOO_LATE))
    assert gone.what == "rank 1 on spark-b is gone, or its node is"
