from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.boot_node.deciding import DOWN_ROUNDS, Decision, decide, seen_in
from deploy.boot_node.facts import Memory, Report

A = Report("a", engine="e1", generation=3, container="ca", running=True, started="t1")
B = Report("b", engine="e2", generation=3, container="cb", running=True, started="t2")
UP = seen_in([A, B])


def restarted(report: Report, *, running: bool = False) -> Report:
    """The same rank after its engine has restarted."""
    return replace(report, engine="new", running=running)


def seen_down(memory: Memory | None, *reports: Report) -> Decision:
    """What it comes to when the same is seen for as long as it takes."""
    decision = decide(memory, reports)
    for _ in range(DOWN_ROUNDS - 1):
        decision = decide(decision.memory, reports, decision.down_rounds)
    return decision


@pytest.mark.parametrize(
    "reports",
    [
        (restarted(A), B),
        (A, restarted(B)),
        (restarted(A), restarted(B)),
        (restarted(A), replace(B, running=False)),  # the survivor died of its partner's absence
        (A, restarted(replace(B, started="t9"), running=True)),  # it came back alone
    ],
)
def test_a_restart_that_took_a_rank_starts_all_of_them(reports: tuple[Report, ...]) -> None:
    decision = decide(UP, reports)
    assert decision.start
    assert decision.memory == UP


def test_an_engine_that_keeps_its_containers_when_it_restarts_changes_nothing() -> None:
    decision = decide(UP, [restarted(A, running=True), B])
    assert not decision.start
    assert decision.memory is not None
    assert decision.memory.engines["a"] == "new"


def test_a_rank_that_ends_with_all_engines_up_is_left_alone_after_a_while() -> None:
    down = replace(B, running=False)
    first = decide(UP, [A, down])
    assert first.memory == UP
    assert not first.said
    last = seen_down(UP, A, down)
    assert last.memory is not None
    assert not last.memory.up
    assert "b has ended" in last.said
    later = decide(last.memory, [restarted(A), restarted(down)])
    assert not later.start
    assert "stays down" in later.said


def test_a_rank_that_dies_just_before_the_restart_is_seen_comes_back() -> None:
    dying = decide(UP, [replace(A, running=False), B])
    assert decide(dying.memory, [replace(A, running=False), restarted(B)]).start


def test_a_pair_that_a_person_started_again_counts_as_up() -> None:
    down = seen_down(UP, A, replace(B, running=False)).memory
    up = decide(down, [A, B]).memory
    assert up == UP
    assert decide(up, [A, restarted(B)]).start


def test_a_pair_that_was_never_seen_running_is_not_started() -> None:
    decision = decide(None, [restarted(A), restarted(B)])
    assert not decision.start
    assert "did not before" in decision.said


def test_a_new_generation_is_watched_from_when_it_is_seen() -> None:
    newer = [replace(item, generation=4, container=f"{item.container}4") for item in (A, B)]
    decision = decide(UP, newer)
    assert not decision.start
    assert decision.memory == seen_in(newer)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(B, generation=2), "different generations (a 3, b 2)"),
        (replace(B, generation=0, container=""), "different generations (a 3, b none)"),
        (replace(B, other="sparklock-c-g4-r1.trial"), "runs sparklock-c-g4-r1.trial"),
        (Report("b", problem="its engine does not answer"), "waits for b"),
        (replace(B, version=0), "version 0"),
    ],
)
def test_what_stands_in_the_way_is_said_and_nothing_is_forgotten(other: Report, said: str) -> None:
    decision = decide(UP, [restarted(A), other], 2)
    assert said in decision.said
    assert (decision.memory, decision.start, decision.down_rounds) == (UP, False, 0)


def test_without_containers_there_is_nothing_to_remember() -> None:
    nothing = [Report("a", engine="e1"), Report("b", engine="e2")]
    assert decide(UP, nothing).memory is None


def test_a_single_node_is_brought_back_too() -> None:
    assert decide(seen_in([A]), [restarted(A)]).start
