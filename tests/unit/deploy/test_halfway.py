from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deploy.generations import history_of
from deploy.halfway import half_states
from tests.unit.deploy.clusters import container, wanted

if TYPE_CHECKING:
    from deploy.state import ContainerFacts

GOAL = wanted()


def pair(generation: int, end: str = "", **changes: object) -> list[ContainerFacts]:
    return [
        container(
            GOAL, rank, generation, name=f"sparklock-pair-g{generation}-r{rank}{end}", **changes
        )
        for rank in (0, 1)
    ]


def told(*pairs: list[ContainerFacts], wanted_generation: int = 9) -> list[str]:
    history = history_of({"spark-a": [p[0] for p in pairs], "spark-b": [p[1] for p in pairs]})
    return [half.text() for half in half_states(history, wanted_generation)]


def test_a_pair_that_serves_beside_kept_ones_is_not_half_done() -> None:
    assert told(pair(1, ".old", running=False), pair(2)) == []
    assert told() == []


def test_a_stopped_pair_is_started_by_a_deploy_of_its_lock_and_else_by_a_rollback() -> None:
    stopped = pair(2, running=False)
    assert told(stopped, wanted_generation=2) == [
        "generation 2 is stopped on all nodes: inv deploy"
    ]
    assert told(stopped) == ["generation 2 is stopped on all nodes: inv rollback 2"]


def test_a_rank_that_is_down_and_one_that_is_gone_are_named() -> None:
    one, two = pair(2)
    down = [one, replace(two, running=False)]
    assert told(down) == ["generation 2 does not serve: rank 1 on spark-b is down: inv rollback 2"]
    history = history_of({"spark-a": [one], "spark-b": []})
    (half,) = half_states(history, 9)
    assert half.text() == (
        "generation 2 has no container of rank 1 any more, so it cannot serve: inv deploy"
    )


def test_a_deploy_that_was_interrupted_is_finished_or_undone() -> None:
    found = told(pair(1, running=False), pair(2, ".trial"), wanted_generation=2)
    interrupted = (
        "generation 2 was never confirmed, as by an interrupted deploy: "
        "inv deploy finishes it or clears it away; inv rollback 1 undoes it"
    )
    assert found == [
        "generation 1 is stopped on all nodes: inv rollback 1",
        interrupted,
    ]


def test_ranks_that_were_left_for_inspection_are_said_to_be() -> None:
    (half,) = told(pair(2, ".failed"))
    assert half == "generation 2 failed and was left for inspection: inv deploy clears it"


def test_a_rollback_that_was_interrupted_is_finished_or_undone() -> None:
    found = told(pair(1, ".old"), pair(2, running=False), wanted_generation=2)
    assert found[1] == (
        "generation 1 was superseded and runs, as in a rollback that was interrupted: "
        "inv rollback 1 finishes it, inv deploy undoes it"
    )


def test_names_that_do_not_say_what_is_are_told() -> None:
    trial = replace(pair(2)[1], name="sparklock-pair-g2-r1.trial")
    found = told(pair(1, running=False), [pair(2)[0], trial], wanted_generation=2)
    assert found == [
        "generation 2 was confirmed, and not all its names say so: inv deploy",
        "generation 1 was superseded, and not all its names say so: inv deploy",
    ]
