from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes, hex_of
from deploy.actions import (
    AcceptContainer,
    Confirm,
    CreateContainer,
    Phase,
    PlaceModel,
    PullImage,
    RemoveContainer,
    Restore,
    RetireContainer,
    SendModel,
    StartContainer,
    StopContainer,
    TagImage,
    size_text,
)
from deploy.generations import short
from deploy.plan import make_plan
from tests.unit.deploy.clusters import (
    MODEL,
    container,
    empty,
    image_facts,
    model_facts,
    serving,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.actions import AnyAction, Plan
    from deploy.state import ContainerFacts, NodeState

GOAL = wanted()
A, B = "spark-a", "spark-b"


def phases(plan: Plan) -> list[Phase]:
    return [step.phase for step in plan.steps]


def names(plan: Plan, kind: type[AnyAction]) -> list[tuple[str, str]]:
    found = [action for action in plan.actions if isinstance(action, kind)]
    return [(action.node, getattr(action, "name", "")) for action in found]


def with_containers(
    states: dict[str, NodeState], **containers: Sequence[ContainerFacts]
) -> dict[str, NodeState]:
    named = {"spark-" + key: value for key, value in containers.items()}
    return {
        name: replace(state, containers=tuple(named.get(name, state.containers)))
        for name, state in states.items()
    }


def test_on_fresh_nodes_everything_is_brought_and_workers_start_before_the_head() -> None:
    plan = make_plan(GOAL, empty(GOAL))
    assert phases(plan) == [
        Phase.PREPARE,
        Phase.CREATE,
        Phase.PLACE,
        Phase.START_WORKERS,
        Phase.START_HEAD,
        Phase.CONFIRM,
        Phase.ACCEPT,
        Phase.REMOVE,
    ]
    assert names(plan, StartContainer) == [
        (B, "sparklock-pair-g1-r1.trial"),
        (A, "sparklock-pair-g1-r0.trial"),
    ]
    assert {type(action) for action in plan.steps[0].actions} == {SendModel, PullImage}
    assert plan.restore == Restore()
    assert {action.reason for action in plan.steps[1].actions} == {"nothing is deployed yet"}


def test_nodes_that_are_as_wanted_need_nothing() -> None:
    plan = make_plan(GOAL, serving(GOAL, generation=4))
    assert plan.up_to_date
    assert plan.generation == 4
    assert "up to date" in plan.text()


def test_a_containerd_store_names_the_same_image_by_its_manifest() -> None:
    states = serving(GOAL)
    image = replace(image_facts(GOAL), engine_id=GOAL.image.manifest_digest)
    other = container(GOAL, 1, image_id=GOAL.image.manifest_digest)
    states[B] = replace(states[B], image=image, containers=(other,))
    assert make_plan(GOAL, states).up_to_date


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"spec_digest": digest_bytes(b"other")}, "the container's settings differ"),
        ({"image_id": digest_bytes(b"other")}, "the image is another one"),
        ({"model_digest": digest_bytes(b"other")}, "the model is another one"),
        ({"rank": 0}, "the container's settings differ"),
    ],
)
def test_one_rank_that_is_not_as_wanted_replaces_both(
    change: dict[str, object], reason: str
) -> None:
    facts = replace(container(GOAL, 1), **change)  # type: ignore[arg-type]
    plan = make_plan(GOAL, with_containers(serving(GOAL), b=(facts,)))
    created = [action for action in plan.actions if isinstance(action, CreateContainer)]
    assert [action.name for action in created] == [
        "sparklock-pair-g2-r0.trial",
        "sparklock-pair-g2-r1.trial",
    ]
    made_from = f"; generation 1 is of lock {short(GOAL.lock_digest)}"
    assert {action.reason for action in created} == {reason + made_from}
    assert {node for node, _ in names(plan, RetireContainer)} == {A, B}


def test_a_lock_that_changes_neither_image_nor_settings_nor_model_restarts_nothing() -> None:
    facts = [container(GOAL, rank, lock_digest=digest_bytes(b"other")) for rank in (0, 1)]
    assert make_plan(GOAL, with_containers(serving(GOAL), a=facts[:1], b=facts[1:])).up_to_date


def test_a_rank_that_is_gone_is_a_reason_to_replace_both() -> None:
    plan = make_plan(GOAL, with_containers(serving(GOAL), b=()))
    assert names(plan, StopContainer) == [(A, "sparklock-pair-g1-r0")]
    assert any(a.reason.startswith("spark-b has no rank") for a in plan.actions)
    assert plan.restore.ranks == ()
    assert plan.restore.why_not == "generation 1 has no container of rank 1 any more"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"paused": True}, "rank 1 on spark-b is paused"),
        ({"running": False, "exit_code": 137}, "rank 1 on spark-b has stopped, exit code 137"),
    ],
)
def test_when_one_rank_is_down_all_start_again_together(
    change: dict[str, object], reason: str
) -> None:
    down = replace(container(GOAL, 1), **change)  # type: ignore[arg-type]
    plan = make_plan(GOAL, with_containers(serving(GOAL), b=(down,)))
    assert phases(plan) == [
        Phase.STOP,
        Phase.START_WORKERS,
        Phase.START_HEAD,
        Phase.CONFIRM,
    ]
    assert (A, "sparklock-pair-g1-r0") in names(plan, StopContainer)
    assert names(plan, StartContainer) == [
        (B, "sparklock-pair-g1-r1"),
        (A, "sparklock-pair-g1-r0"),
    ]
    assert plan.generation == 1
    assert reason in plan.actions[0].reason
    assert plan.restore == Restore(1, why_not="generation 1 did not serve before")


def test_the_current_pair_is_restored_whole_whether_it_ran_or_not() -> None:
    new = wanted(image="new")
    changed = make_plan(new, serving(GOAL))
    assert changed.restore.ranks == ((A, "sparklock-pair-g1-r0"), (B, "sparklock-pair-g1-r1"))
    assert not changed.restore.restarts
    stopped = with_containers(serving(GOAL), a=(container(GOAL, 0, running=False, exit_code=1),))
    restore = make_plan(new, stopped).restore
    assert restore.ranks == changed.restore.ranks
    assert restore.restarts


def test_old_containers_are_stopped_only_after_the_new_ones_exist_and_are_kept() -> None:
    plan = make_plan(wanted(image="new"), serving(GOAL))
    order = phases(plan)
    assert order.index(Phase.CREATE) < order.index(Phase.STOP) < order.index(Phase.START_WORKERS)
    assert order[-1] is Phase.RETIRE
    assert order.index(Phase.CONFIRM) < order.index(Phase.ACCEPT) < order.index(Phase.RETIRE)
    assert names(plan, RemoveContainer) == []
    retired = [action for action in plan.actions if isinstance(action, RetireContainer)]
    assert [item.final_name for item in retired] == [f"sparklock-pair-g1-r{r}.old" for r in (0, 1)]


def test_an_image_without_its_tag_is_tagged_and_not_pulled() -> None:
    states = serving(GOAL)
    states[A] = replace(states[A], image=None, untagged=image_facts(GOAL))
    plan = make_plan(GOAL, states)
    assert [type(action) for action in plan.actions] == [TagImage]
    assert plan.restore.ranks == ((A, "sparklock-pair-g1-r0"), (B, "sparklock-pair-g1-r1"))


@pytest.mark.parametrize(
    ("tags", "digests"),
    [((".trial",), ()), ((), ("127.0.0.1:40495/{repository}@sha256:ab",))],
)
def test_names_that_a_killed_deploy_left_are_taken_away(
    tags: tuple[str, ...], digests: tuple[str, ...]
) -> None:
    states = serving(GOAL)
    image = GOAL.image
    named = replace(
        image_facts(GOAL),
        tags=(image.reference, *(image.reference + tag for tag in tags)),
        digests=tuple(name.format(repository=image.repository) for name in digests),
    )
    states[B] = replace(states[B], image=named)
    (tag,) = make_plan(GOAL, states).actions
    assert isinstance(tag, TagImage)
    assert (tag.node, tag.reason) == (B, "a killed deploy has left another name of it")


def test_other_names_of_the_image_stay() -> None:
    states = serving(GOAL)
    pushed = ("127.0.0.1:5000/our/name@sha256:ab", "registry.lan/x@sha256:ab")
    states[B] = replace(states[B], image=replace(image_facts(GOAL), digests=pushed))
    assert make_plan(GOAL, states).actions == ()


def test_a_tag_on_another_image_is_moved() -> None:
    states = empty(GOAL)
    other = replace(image_facts(GOAL), engine_id=digest_bytes(b"x"))
    states[A] = replace(states[A], image=other, untagged=image_facts(GOAL))
    (tag,) = [a for a in make_plan(GOAL, states).actions if isinstance(a, TagImage)]
    assert (tag.node, tag.reason) == (A, "the tag names another image")


def test_equal_ids_with_other_layers_are_another_image() -> None:
    states = serving(GOAL)
    fake = replace(image_facts(GOAL), diff_ids=(digest_bytes(b"x"),))
    states[B] = replace(states[B], image=fake)
    assert [type(a) for a in make_plan(GOAL, states).actions] == [PullImage]


def test_only_model_files_that_differ_are_sent_and_the_pair_is_replaced() -> None:
    states = serving(GOAL)
    damaged = replace(model_facts(GOAL)[0], digest=digest_bytes(b"other weights"))
    states[B] = replace(states[B], model_files=(damaged, model_facts(GOAL)[1]))
    plan = make_plan(GOAL, states)
    (send,) = [action for action in plan.actions if isinstance(action, SendModel)]
    (place,) = [action for action in plan.actions if isinstance(action, PlaceModel)]
    assert (send.node, send.files, send.size_bytes) == (B, MODEL[:1], 7)
    assert place.replaced == ("config.json",)
    assert any(a.reason.startswith("model files differ on spark-b") for a in plan.actions)


def test_a_missing_model_file_replaces_none() -> None:
    (place, _) = [a for a in make_plan(GOAL, empty(GOAL)).actions if isinstance(a, PlaceModel)]
    assert place.replaced == ()


def test_a_pair_on_trial_that_runs_as_wanted_is_confirmed_and_accepted() -> None:
    old = wanted(image="old")
    states = serving(GOAL, generation=2)
    for rank, node in enumerate((A, B)):
        trial = container(GOAL, rank, 2, name=f"sparklock-pair-g2-r{rank}.trial")
        stopped = container(old, rank, 1, running=False)
        states[node] = replace(states[node], containers=(stopped, trial))
    plan = make_plan(GOAL, states)
    assert phases(plan) == [Phase.CONFIRM, Phase.ACCEPT, Phase.RETIRE]
    assert plan.generation == 2
    assert plan.discard == tuple((n, f"sparklock-pair-g2-r{r}.trial") for r, n in enumerate((A, B)))
    assert plan.restore.ranks == ((A, "sparklock-pair-g1-r0"), (B, "sparklock-pair-g1-r1"))
    assert plan.restore.restarts
    (confirm,) = [action for action in plan.actions if isinstance(action, Confirm)]
    assert confirm.node == A


def test_a_half_accepted_pair_was_confirmed_and_is_only_accepted() -> None:
    states = serving(GOAL)
    trial = container(GOAL, 1, name="sparklock-pair-g1-r1.trial")
    plan = make_plan(GOAL, with_containers(states, b=(trial,)))
    (accept,) = plan.actions
    assert isinstance(accept, AcceptContainer)
    assert accept.final_name == "sparklock-pair-g1-r1"


def test_half_a_trial_is_cleared_first_and_what_it_had_stopped_is_restored_on_failure() -> None:
    trial = container(GOAL, 1, 2, name="sparklock-pair-g2-r1.trial")
    old = wanted(image="old")
    states = with_containers(
        serving(GOAL),
        a=(container(old, 0, running=False),),
        b=(container(old, 1, running=False), trial),
    )
    plan = make_plan(GOAL, states)
    assert phases(plan)[0] is Phase.CLEAR
    assert plan.steps[0].actions == (
        RemoveContainer(B, "an interrupted deploy left it", "sparklock-pair-g2-r1.trial"),
    )
    assert plan.generation == 3
    assert plan.restore.ranks == ((A, "sparklock-pair-g1-r0"), (B, "sparklock-pair-g1-r1"))


def test_a_wanted_pair_that_an_interrupted_deploy_stopped_starts_again_and_its_trial_goes() -> None:
    trial = container(GOAL, 1, 2, name="sparklock-pair-g2-r1.trial", running=True)
    stopped = with_containers(
        serving(GOAL),
        a=(container(GOAL, 0, running=False),),
        b=(container(GOAL, 1, running=False), trial),
    )
    plan = make_plan(GOAL, stopped)
    assert plan.generation == 1
    assert (B, trial.name) in names(plan, StopContainer)
    assert phases(plan)[-1] is Phase.REMOVE
    assert names(plan, RemoveContainer) == [(B, trial.name)]


def test_ranks_that_were_left_for_inspection_are_cleared_though_they_run_as_wanted() -> None:
    states = {
        node: replace(
            state, containers=(container(GOAL, rank, 1, name=f"sparklock-pair-g1-r{rank}.failed"),)
        )
        for rank, (node, state) in enumerate(serving(GOAL).items())
    }
    plan = make_plan(GOAL, states)
    assert phases(plan)[0] is Phase.CLEAR
    assert plan.steps[0].actions[0].reason == "a failed deploy left it for inspection"
    assert plan.generation == 2


def test_old_generations_beside_a_serving_pair_are_left_alone() -> None:
    old = container(wanted(image="old"), 0, 1, name="sparklock-pair-g1-r0.old", running=False)
    states = with_containers(serving(GOAL, 2), a=(old, container(GOAL, 0, 2)))
    assert make_plan(GOAL, states).up_to_date


def test_a_pair_whose_renaming_was_cut_off_is_renamed_and_goes_on_serving() -> None:
    new, old = GOAL, wanted(image="old")
    states = with_containers(
        serving(new),
        a=(container(old, 0, 1, running=False), container(new, 0, 2)),
        b=(
            container(old, 1, 1, running=False, name="sparklock-pair-g1-r1.old"),
            container(new, 1, 2),
        ),
    )
    (retire,) = make_plan(new, states).actions
    assert isinstance(retire, RetireContainer)
    assert (retire.node, retire.final_name) == (A, "sparklock-pair-g1-r0.old")


def test_of_two_pairs_with_current_names_that_are_down_the_one_started_last_is_current() -> None:
    old = wanted(image="old")
    states = with_containers(
        serving(GOAL),
        a=(
            container(old, 0, 1, running=False, started_at="7"),
            container(GOAL, 0, 2, running=False, started_at="8"),
        ),
        b=(
            container(old, 1, 1, running=False, started_at="7"),
            container(GOAL, 1, 2, running=False, started_at="8"),
        ),
    )
    plan = make_plan(GOAL, states)
    assert plan.generation == 2
    assert {name for _, name in names(plan, StartContainer)} == {
        f"sparklock-pair-g2-r{rank}" for rank in (0, 1)
    }
    assert {node for node, _ in names(plan, RetireContainer)} == {A, B}


def test_a_pair_whose_last_renaming_is_due_is_current_when_it_was_started_last() -> None:
    states = with_containers(
        serving(GOAL),
        a=(container(GOAL, 0, 2), container(GOAL, 0, 1, running=False)),
        b=(
            container(GOAL, 1, 2, name="sparklock-pair-g2-r1.trial"),
            container(GOAL, 1, 1, running=False),
        ),
    )
    plan = make_plan(GOAL, states)
    assert phases(plan) == [Phase.ACCEPT, Phase.RETIRE]
    assert plan.generation == 2


def test_what_a_transfer_left_beside_a_serving_model_is_dropped() -> None:
    states = serving(GOAL)
    states[A] = replace(states[A], model_transfer=True)
    assert phases(make_plan(GOAL, states)) == [Phase.REMOVE]


def test_a_rank_on_the_wrong_node_is_no_rank() -> None:
    states = with_containers(serving(GOAL), a=(container(GOAL, 1),), b=(container(GOAL, 0),))
    assert len(names(make_plan(GOAL, states), CreateContainer)) == 2


def test_containers_with_unreadable_labels_are_removed_and_generations_begin_at_one() -> None:
    broken = replace(container(GOAL, 0), rank=-1, generation=-1, lock_digest="", spec_digest="")
    plan = make_plan(GOAL, with_containers(serving(GOAL), a=(broken,), b=()))
    assert plan.generation == 1
    assert (A, broken.name) in names(plan, RemoveContainer)


def test_a_plan_is_printed_by_phase_with_reasons_and_as_json() -> None:
    plan = make_plan(GOAL, empty(GOAL))
    text = plan.text()
    assert "send model: 2 files, 16 B" in text
    assert f"pull image {GOAL.image.reference}" in text
    lines = text.splitlines()
    at = lines.index("create the new containers  (nothing is deployed yet)")
    assert lines[at + 1] == "  spark-a  create sparklock-pair-g1-r0.trial"
    assert lines[1].endswith("(missing or different in /srv/models/m)")
    document = plan.as_json()
    assert document["up_to_date"] is False
    steps = document["steps"]
    assert isinstance(steps, list)
    assert steps[0]["phase"] == "prepare"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_960, "1.0 MB"),
        (125_100_000_000, "125.1 GB"),
    ],
)
def test_sizes_are_told_in_powers_of_a_thousand(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize("started", [False, True])
def test_what_an_interrupted_deploy_replaced_of_the_model_goes_back_if_the_next_one_fails(
    *, started: bool
) -> None:
    other = digest_bytes(b"another model")
    owner = hex_of(other)[:12]
    states = {
        node: replace(
            state,
            model_transfer=True,
            model_kept=frozenset({owner}),
            containers=(
                container(GOAL, rank, model_digest=other, running=False, spec_digest=other),
                *((container(GOAL, rank, 2, name=f"sparklock-pair-g2-r{rank}.trial"),) * started),
            ),
        )
        for rank, (node, state) in enumerate(serving(GOAL).items())
    }
    restore = make_plan(GOAL, states).restore
    assert [(action.node, action.owner) for action in restore.model] == [(A, owner), (B, owner)]
    assert restore.generation == 1

    same = {
        node: replace(
            state,
            containers=tuple(replace(c, model_digest=GOAL.model_digest) for c in state.containers),
        )
        for node, state in states.items()
    }
    assert make_plan(GOAL, same).restore.model == ()
