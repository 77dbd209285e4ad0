from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from builder.digest import digest_bytes
from deploy.generations import history_of
from deploy.plan import make_plan
from deploy.state import ContainerFacts, ImageFacts, ModelFileFacts, NodeState, Standing
from tests.unit.deploy.clusters import MODEL, container, empty, image_facts, wanted
from tests.unit.deploy.simulation import applied

GOAL = wanted()
OTHER = digest_bytes(b"other")


def or_other(right: str) -> st.SearchStrategy[str]:
    """The right digest two times of three, so that whole pairs that match do occur."""
    return st.sampled_from([right, right, OTHER])


@st.composite
def containers(draw: st.DrawFn) -> ContainerFacts:
    rank = draw(st.sampled_from([0, 0, 1, 1, -1]))
    generation = draw(st.sampled_from([1, 1, 2, 3, -1]))
    end = draw(st.sampled_from(["", "", ".trial", ".old", ".failed"]))
    facts = container(GOAL, max(rank, 0))
    return replace(
        facts,
        name=f"sparklock-pair-g{generation}-r{rank}{end}",
        rank=rank,
        generation=generation,
        model_digest=draw(or_other(facts.model_digest)),
        started_at=draw(st.sampled_from(["1", "2", "3"])),
        paused=draw(st.sampled_from([False, False, False, True])),
        spec_digest=draw(or_other(facts.spec_digest)),
        image_id=draw(or_other(facts.image_id)),
        running=draw(st.booleans()),
    )


images = st.sampled_from([None, image_facts(GOAL), ImageFacts(OTHER, (), (OTHER,))])
model_files = st.tuples(
    *(
        st.sampled_from(
            [None, ModelFileFacts(f.path, f.size_bytes, f.digest), ModelFileFacts(f.path, 1, None)]
        )
        for f in MODEL
    )
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeState:
    return replace(
        empty(GOAL)[name],
        image=draw(images),
        untagged=draw(images),
        containers=tuple(draw(st.lists(containers(), max_size=4, unique_by=lambda c: c.name))),
        model_files=tuple(file for file in draw(model_files) if file is not None),
        model_transfer=draw(st.booleans()),
    )


pairs = st.fixed_dictionaries({name: nodes(name) for name in ("spark-a", "spark-b")})


@given(pairs)
def test_a_plan_applied_gives_the_wanted_state_and_planning_again_gives_nothing(
    states: dict[str, NodeState],
) -> None:
    after = applied(GOAL, make_plan(GOAL, states), states)
    assert make_plan(GOAL, after).up_to_date


@given(pairs)
def test_an_applied_plan_leaves_one_running_rank_on_each_node_and_the_rest_stopped(
    states: dict[str, NodeState],
) -> None:
    plan = make_plan(GOAL, states)
    after = applied(GOAL, plan, states)
    assert_serves(after, plan.generation)


def assert_serves(states: dict[str, NodeState], generation: int) -> None:
    """One generation runs under its current names, and everything else is stopped and kept."""
    for rank, (_, state) in enumerate(sorted(states.items())):
        serving = [item for item in state.containers if item.standing is Standing.CURRENT]
        assert [item.name for item in serving] == [f"sparklock-pair-g{generation}-r{rank}"]
        assert serving[0].awake
        rest = [item for item in state.containers if item not in serving]
        assert all(item.standing is Standing.OLD and not item.running for item in rest)


@given(pairs)
def test_what_was_confirmed_once_is_never_removed(states: dict[str, NodeState]) -> None:
    history = history_of({name: state.containers for name, state in states.items()})
    names = {
        (item.node, item.facts.name_as(Standing.CURRENT))
        for generation in history.generations
        if generation.confirmed
        for item in generation.ranks
    }
    after = applied(GOAL, make_plan(GOAL, states), states)
    left = {
        (name, item.name_as(Standing.CURRENT))
        for name, state in after.items()
        for item in state.containers
    }
    assert names <= left


@given(pairs)
def test_the_order_in_which_nodes_and_containers_are_told_never_changes_a_plan(
    states: dict[str, NodeState],
) -> None:
    turned = {
        name: replace(state, containers=state.containers[::-1])
        for name, state in reversed(states.items())
    }
    first, second = make_plan(GOAL, states), make_plan(GOAL, turned)
    assert [(s.phase, set(s.actions)) for s in first.steps] == [
        (s.phase, set(s.actions)) for s in second.steps
    ]


@given(pairs)
def test_nothing_that_has_to_be_restored_is_removed_before_the_new_pair_is_confirmed(
    states: dict[str, NodeState],
) -> None:
    plan = make_plan(GOAL, states)
    removed_early = {
        (action.node, getattr(action, "name", ""))
        for step in plan.steps
        if step.phase.name == "CLEAR"
        for action in step.actions
    }
    assert removed_early.isdisjoint(plan.restore.ranks)
