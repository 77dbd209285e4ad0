"""(wanted, observed) -> Plan: what has to change on the nodes, in order, and why.

The ranks are one unit: if one of them has to be replaced, all are, and if one has to be started
again, all are, since a rank that comes back alone never meets the others. What was confirmed once
is never removed here: it stays, stopped, for rollback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy import switching
from deploy.actions import AcceptContainer, Confirm, CreateContainer, Phase, Restore
from deploy.caches import chosen_cache
from deploy.generations import history_of, short
from deploy.images import images_of
from deploy.replaced import kept_by, outlived, owner_beside
from deploy.state import Standing
from deploy.weights import missing_model, places, settles, sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from builder.lock import ModelFile
    from deploy.actions import AnyAction, Plan
    from deploy.generations import Generation, History
    from deploy.launch import ContainerSpec
    from deploy.state import ContainerFacts, NodeState
    from deploy.wanted import Wanted

STRAY = "its labels do not say what it is"


def make_plan(wanted: Wanted, states: Mapping[str, NodeState]) -> Plan:
    """The actions that make the observed nodes as wanted; `states` has every node of the manifest.

    Applied to the observed state it gives the wanted one, and planning again gives nothing.
    """
    history = history_of({name: state.containers for name, state in states.items()})
    models = {spec.node: missing_model(wanted, states[spec.node]) for spec in wanted.specs}
    current = history.current
    if any(models.values()):
        return _replace(wanted, states, history, models)
    if current is not None and is_wanted(wanted, current):
        again = _keep if current.awake else _start_again
        return again(wanted, states, history, current)
    for trial in reversed(history.unconfirmed):
        if not trial.failed and trial.awake and is_wanted(wanted, trial):
            return _finish(wanted, states, history, trial)
    return _replace(wanted, states, history, models)


def is_wanted(wanted: Wanted, generation: Generation) -> bool:
    """Whether a generation is what the lock asks for, each rank on its node, running or not."""
    there = {item.node: item.facts for item in generation.ranks}
    return (
        generation.whole
        and len(there) == len(wanted.specs)
        and all(
            spec.node in there and wanted.matches(there[spec.node], spec) for spec in wanted.specs
        )
    )


def _keep(
    wanted: Wanted, states: Mapping[str, NodeState], history: History, current: Generation
) -> Plan:
    """The plan when the wanted ranks run already: tidy up, at most."""
    return switching.plan_of(
        current.number,
        (
            (Phase.STOP, _stop_others(history, current.number)),
            (Phase.PREPARE, images_of(wanted, states)),
            *_after(wanted, states, history, current),
        ),
        switching.restoring(current, {}),
        at=current.at,
    )


def _start_again(
    wanted: Wanted, states: Mapping[str, NodeState], history: History, current: Generation
) -> Plan:
    """The plan when the wanted generation is there and does not run, or not all of it."""
    down = [item for item in current.ranks if not item.facts.awake]
    reason = f"all ranks start together: {_state(down[0].node, down[0].facts)}"
    workers, head = switching.start(current.names, reason)
    return switching.plan_of(
        current.number,
        (
            (Phase.PREPARE, images_of(wanted, states)),
            (Phase.STOP, switching.stop(history.containers, reason)),
            (Phase.START_WORKERS, workers),
            (Phase.START_HEAD, head),
            (Phase.CONFIRM, _confirm(current.names)),
            *_after(wanted, states, history, current),
        ),
        Restore(current.number, why_not=f"generation {current.number} did not serve before"),
        at=current.at,
    )


def _finish(
    wanted: Wanted, states: Mapping[str, NodeState], history: History, trial: Generation
) -> Plan:
    """The plan when an interrupted deploy has started the wanted ranks and confirmed nothing."""
    return switching.plan_of(
        trial.number,
        (
            (Phase.STOP, _stop_others(history, trial.number)),
            (Phase.PREPARE, images_of(wanted, states)),
            (Phase.CONFIRM, _confirm(trial.names, "it was started and never confirmed")),
            *_after(wanted, states, history, trial),
        ),
        switching.restoring(history.current, kept_by(wanted, states)),
        discard=trial.names,
        at=trial.at,
    )


def _replace(
    wanted: Wanted,
    states: Mapping[str, NodeState],
    history: History,
    models: Mapping[str, tuple[ModelFile, ...]],
) -> Plan:
    """The plan that makes a new generation and switches to it."""
    number = history.newest + 1
    shared = sharing(wanted, states)
    kept = kept_by(wanted, states)
    reason = _why(wanted, history.current, models)
    names = [(spec.node, spec.name(number) + Standing.TRIAL.value) for spec in wanted.specs]
    workers, head = switching.start(names, "all ranks exist")
    cleared = {item for generation in history.unconfirmed for item in generation.ranks}
    rest = (item for item in history.containers if item not in cleared)
    return switching.plan_of(
        number,
        (
            (Phase.CLEAR, (*outlived(history.current, kept), *switching.leftovers(history))),
            (Phase.PREPARE, (*shared.send, *images_of(wanted, states))),
            *shared.phases,
            (Phase.CREATE, _create(wanted, states, number, reason)),
            (Phase.STOP, switching.stop(rest, reason)),
            (Phase.PLACE, places(wanted, states, owner_beside(history.current, wanted))),
            (Phase.START_WORKERS, workers),
            (Phase.START_HEAD, head),
            (Phase.CONFIRM, _confirm(names)),
            (Phase.ACCEPT, _accept(names)),
            (Phase.RETIRE, switching.retire(history, number)),
            (
                Phase.REMOVE,
                (*settles(wanted, states), *switching.clear(history.strays, STRAY)),
            ),
        ),
        switching.restoring(history.current, kept),
    )


def _after(
    wanted: Wanted, states: Mapping[str, NodeState], history: History, serving: Generation
) -> Iterator[switching.Part]:
    """What follows when a generation that was there already serves: names, and tidying up."""
    left = switching.leftovers(history, keep=serving.number)
    strays = switching.clear(history.strays, STRAY)
    yield Phase.ACCEPT, switching.accept(serving.ranks)
    yield Phase.RETIRE, switching.retire(history, serving.number)
    yield Phase.REMOVE, (*settles(wanted, states), *left, *strays)


def _stop_others(history: History, serving: int) -> Iterator[AnyAction]:
    """Stop what runs beside the generation that serves, or is asked whether it does."""
    others = (item for item in history.containers if item.facts.generation != serving)
    return switching.stop(others, f"generation {serving} is to serve")


def _create(
    wanted: Wanted, states: Mapping[str, NodeState], number: int, reason: str
) -> Iterator[AnyAction]:
    known = [states[spec.node].caches for spec in wanted.specs]
    for spec in wanted.specs:
        own = wanted.labels(spec, number)
        name = spec.name(number) + Standing.TRIAL.value
        cache = chosen_cache(spec.cluster, spec.cache, known, number) if spec.cache else ""
        yield CreateContainer(spec.node, reason, name, spec, tuple(sorted(own.items())), cache)


def _confirm(
    names: Iterable[tuple[str, str]], reason: str = "a server that has started need not serve"
) -> tuple[Confirm, ...]:
    ranks = tuple(names)
    return (Confirm(ranks[0][0], reason, ranks),)


def _accept(names: Iterable[tuple[str, str]]) -> Iterator[AnyAction]:
    for node, name in names:
        final = name.removesuffix(Standing.TRIAL.value)
        yield AcceptContainer(node, "the pair answered", name, final)


def _why(
    wanted: Wanted, current: Generation | None, models: Mapping[str, tuple[ModelFile, ...]]
) -> str:
    """The first reason, in the order of what weighs most, why the pair has to be replaced.

    With the lock that the replaced generation was made from: another controller may know it.
    """
    if current is None:
        return "nothing is deployed yet"
    made_from = f"generation {current.number} is of lock {short(current.lock_digest)}"
    return f"{_difference(wanted, current, models)}; {made_from}"


def _difference(
    wanted: Wanted, current: Generation, models: Mapping[str, tuple[ModelFile, ...]]
) -> str:
    for spec in wanted.specs:
        here = [item.facts for item in current.ranks if item.node == spec.node]
        if not here:
            return f"{spec.node} has no rank"
        if difference := _of_rank(wanted, here[0], spec):
            return difference
    if not is_wanted(wanted, current):
        return current.why_incomplete() or "it has more ranks"
    return f"model files differ on {', '.join(node for node, files in models.items() if files)}"


def _of_rank(wanted: Wanted, facts: ContainerFacts, spec: ContainerSpec) -> str:
    """How a container differs from its spec, in a few words; empty if it does not."""
    if facts.image_id not in wanted.image.engine_ids:
        return "the image is another one"
    if facts.rank != spec.rank or facts.spec_digest != spec.digest:
        return "the container's settings differ"
    if facts.model_digest != wanted.model_digest:
        return "the model is another one"
    return "" if wanted.has_key(facts, spec) else "the API key is another one"


def _state(node: str, facts: ContainerFacts) -> str:
    how = "is paused" if facts.paused else f"has stopped, exit code {facts.exit_code}"
    return f"rank {facts.rank} on {node} {how}"
