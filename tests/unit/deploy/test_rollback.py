from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from deploy.actions import Phase, RemoveContainer, RestoreModel, StopContainer
from deploy.errors import (
    CleanupFailedError,
    DeployFailedError,
    DeployInterruptedError,
    OldPairDownError,
    Outcome,
    Rollback,
)
from deploy.generations import history_of, replaced_lock
from deploy.generations_errors import (
    CannotReturnError,
    NoGenerationError,
    OlderLockError,
    OtherModelError,
)
from deploy.generations_reports import GenerationsReport
from deploy.replaced import owner
from deploy.rollback import plan_rollback
from deploy.serving import serving_at
from deploy.state import KeptModel
from tests.unit.deploy.clusters import container, wanted

if TYPE_CHECKING:
    from deploy.generations import History
    from deploy.state import ContainerFacts

GOAL = wanted()
A, B = "spark-a", "spark-b"


def pair(generation: int, end: str = ".old", **changes: object) -> list[ContainerFacts]:
    name = f"sparklock-pair-g{generation}-r"
    return [
        container(
            GOAL, rank, generation, name=f"{name}{rank}{end}", **{"running": not end} | changes
        )
        for rank in (0, 1)
    ]


def of(*pairs: list[ContainerFacts]) -> History:
    return history_of({A: [item[0] for item in pairs], B: [item[1] for item in pairs]})


def test_a_rollback_starts_the_pair_before_workers_first_and_confirms_it_where_it_serves() -> None:
    plan = plan_rollback(of(pair(1), pair(2), pair(3, "")), None, {})
    assert plan.generation == 2
    assert [step.phase for step in plan.steps] == [
        Phase.STOP,
        Phase.START_WORKERS,
        Phase.START_HEAD,
        Phase.CONFIRM,
        Phase.ACCEPT,
        Phase.RETIRE,
    ]
    assert plan.restore.generation == 3
    assert plan.at == serving_at(GOAL.specs[0].command)


def test_from_the_oldest_pair_it_goes_to_the_newest_other_one() -> None:
    assert plan_rollback(of(pair(1, ""), pair(2), pair(3)), None, {}).generation == 3


def test_the_current_pair_is_started_again_by_its_number_and_needs_nothing_when_it_runs() -> None:
    assert plan_rollback(of(pair(1), pair(2, "")), 2, {}).up_to_date
    plan = plan_rollback(of(pair(1), pair(2, "", running=False)), 2, {})
    assert [step.phase for step in plan.steps] == [
        Phase.START_WORKERS,
        Phase.START_HEAD,
        Phase.CONFIRM,
    ]
    assert plan.restore.why_not == "generation 2 did not serve before"


def test_what_was_never_confirmed_is_cleared_and_is_nothing_to_go_back_to() -> None:
    found = of(pair(1, "", running=False), pair(2, ".trial", running=True))
    plan = plan_rollback(found, 1, {})
    removed = [item for item in plan.actions if isinstance(item, RemoveContainer)]
    assert [item.name for item in removed] == [f"sparklock-pair-g2-r{r}.trial" for r in (0, 1)]
    with pytest.raises(NoGenerationError, match=r"1 \(current\)"):
        plan_rollback(found, 2, {})


def test_an_interrupted_rollback_is_confirmed_without_another_start() -> None:
    plan = plan_rollback(of(pair(1, running=True), pair(2, "", running=False)), 1, {})
    assert [step.phase for step in plan.steps] == [Phase.CONFIRM, Phase.ACCEPT, Phase.RETIRE]
    half = pair(1)
    half[1] = replace(half[1], running=True)
    plan = plan_rollback(of(half, pair(2, "", running=False)), 1, {})
    stops = [item.name for item in plan.actions if isinstance(item, StopContainer)]
    assert stops == ["sparklock-pair-g1-r1.old"]


def test_with_nothing_to_go_back_to_what_exists_is_said() -> None:
    with pytest.raises(NoGenerationError, match="no other generation") as caught:
        plan_rollback(of(pair(4, "")), None, {})
    assert caught.value.exit_code == 5
    with pytest.raises(NoGenerationError, match="inv deploy"):
        plan_rollback(of(), None, {})


def test_a_pair_that_has_lost_a_rank_is_refused() -> None:
    one, _ = pair(1)
    found = history_of({A: [one, pair(2, "")[0]], B: [pair(2, "")[1]]})
    with pytest.raises(CannotReturnError, match="no container of rank 1 any more") as caught:
        plan_rollback(found, 1, {})
    assert "git checkout" in str(caught.value)
    assert "inv rollback" not in str(caught.value)


def test_who_asks_for_a_pair_that_is_not_whole_is_told_which_one_is() -> None:
    one, _ = pair(2)
    serving = pair(3, "")
    found = history_of({A: [pair(1)[0], one, serving[0]], B: [pair(1)[1], serving[1]]})
    with pytest.raises(CannotReturnError, match=r"inv rollback 1, or"):
        plan_rollback(found, None, {})


def test_the_way_back_from_a_deploy_that_did_not_end_is_the_pair_before_it() -> None:
    for end in (".trial", ".failed"):
        stopped = pair(2, "", running=False)
        plan = plan_rollback(of(pair(1), stopped, pair(3, end)), None, {})
        assert plan.generation == 2
        assert plan.again == "inv rollback 2"
        assert plan_rollback(of(pair(1, ""), pair(2, end)), None, {}).generation == 1
    lost = history_of({A: [pair(1)[0], pair(2, "")[0]], B: [pair(1)[1], pair(3, ".trial")[1]]})
    assert plan_rollback(lost, None, {}).generation == 1


def test_a_failed_rollback_is_told_as_one_and_begun_again_by_its_own_command() -> None:
    plan = plan_rollback(of(pair(1), pair(2, "")), None, {})
    undone = Rollback(Outcome.ANSWERS, plan.restore, (), (), started_again=True)
    message = DeployFailedError(DeployInterruptedError(), undone, plan).messages[-1]
    assert (message.place, message.remedy) == (
        "rollback",
        "repair the cause above, then: inv rollback 1",
    )
    assert "inv rollback 1 finishes it" in str(CleanupFailedError(DeployInterruptedError(), plan))
    down = Rollback(Outcome.DOWN, plan.restore, (), (OldPairDownError([B]),), started_again=True)
    assert "then inv rollback 1, or inv rollback 2: both" in str(
        DeployFailedError(DeployInterruptedError(), down, plan)
    )


def test_containers_of_different_deployments_are_no_generation_to_go_back_to() -> None:
    other = pair(1, lock_digest=digest_bytes(b"of a time when there were other nodes"))
    found = history_of({A: [pair(1)[0], pair(2, "")[0]], B: [other[1], pair(2, "")[1]]})
    with pytest.raises(CannotReturnError, match="containers of different deployments"):
        plan_rollback(found, 1, {})


def test_a_pair_of_another_model_is_refused_and_what_only_a_trial_has_brought_is_undone() -> None:
    other = digest_bytes(b"other model")
    with pytest.raises(OtherModelError, match="--older"):
        plan_rollback(of(pair(1, model_digest=other), pair(2, "")), 1, {})
    cut = of(pair(1), pair(2, ""), pair(3, ".trial", model_digest=other))
    assert plan_rollback(cut, 1, {}).generation == 1  # it was killed before it placed a file
    target = cut.find(1)
    assert target is not None
    kept = {A: KeptModel("/srv/m", frozenset({owner(target)}))}
    (back,) = [a for a in plan_rollback(cut, 1, kept).actions if isinstance(a, RestoreModel)]
    assert (back.node, back.owner) == (A, owner(target))
    assert plan_rollback(of(pair(1, model_digest=""), pair(2, "")), 1, {}).generation == 1


def test_only_a_lock_that_a_newer_pair_has_replaced_is_older() -> None:
    old, new = digest_bytes(b"old"), digest_bytes(b"new")
    found = of(pair(1, lock_digest=old), pair(2, "", lock_digest=new))
    replaced = replaced_lock(found, old)
    assert replaced is not None
    error = OlderLockError(*replaced)
    assert (error.older, error.current, error.exit_code) == (1, 2, 3)
    assert "inv rollback 1" in str(error)
    assert replaced_lock(found, new) is None
    assert replaced_lock(found, digest_bytes(b"never seen")) is None
    begun = of(pair(1, lock_digest=old), pair(2, ""), pair(3, ".trial", lock_digest=old))
    assert replaced_lock(begun, old) is None
    lost = history_of({A: [pair(1, lock_digest=old)[0], pair(2, "")[0]], B: [pair(2, "")[1]]})
    replaced = replaced_lock(lost, old)
    assert replaced is not None
    assert "inv rollback" not in str(OlderLockError(*replaced))
    rolled_back = of(pair(1, "", lock_digest=old), pair(2, lock_digest=new))
    assert replaced_lock(rolled_back, new) is None


def test_generations_are_shown_as_a_table_and_as_json() -> None:
    found = of(pair(1), pair(2, ""), pair(3, ".failed"))
    report = GenerationsReport("pair", found)
    head, newest, *_ = report.text().splitlines()[1:]
    assert head.split()[:4] == ["no.", "state", "lock", "image"]
    assert newest.endswith("spark-a, spark-b")
    assert "failed, left for inspection" in newest
    document = report.as_json()
    assert document["current"] == 2
    generations = document["generations"]
    assert isinstance(generations, list)
    assert [item["generation"] for item in generations if isinstance(item, dict)] == [3, 2, 1]
    assert "nothing is deployed" in GenerationsReport("pair", of()).text()
