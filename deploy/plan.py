"""(wanted, observed) -> Plan: what has to change on the nodes, in order, and why.

The ranks are one unit: if one of them has to be replaced, all are, since a rank that comes back
alone never meets the others. A generation is confirmed once one of its containers has its final
name; before, all have trial names, so ranks that were started but never answered are not mistaken
for a pair that serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deploy.actions import (
    AcceptContainer,
    Confirm,
    CreateContainer,
    Phase,
    Plan,
    RemoveContainer,
    StartContainer,
    Step,
    StopContainer,
)
from deploy.images import images_of
from deploy.state import TRIAL
from deploy.weights import missing_model, places, sends, settles, sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from builder.lock import ModelFile
    from deploy.actions import AnyAction
    from deploy.launch import ContainerSpec
    from deploy.state import ContainerFacts, NodeState
    from deploy.wanted import Wanted


@dataclass(frozen=True, slots=True)
class _Placed:
    """A container of the cluster, running or not, and the node it stands on."""

    node: str
    facts: ContainerFacts


def make_plan(wanted: Wanted, states: Mapping[str, NodeState]) -> Plan:
    """The actions that make the observed nodes as wanted; `states` has every node of the manifest.

    Applied to the observed state it gives the wanted one, and planning again gives nothing.
    """
    placed = [_Placed(name, facts) for name in states for facts in states[name].containers]
    placed.sort(key=lambda item: (item.node, item.facts.name))
    models = {spec.node: missing_model(wanted, states[spec.node]) for spec in wanted.specs}
    serving = _serving(wanted, placed)
    if not serving or any(models.values()):
        return _replace(wanted, states, placed, models)
    return _keep(wanted, states, placed, serving)


def _serving(wanted: Wanted, placed: Sequence[_Placed]) -> tuple[_Placed, ...]:
    """The containers of the newest generation that runs as wanted, head first; or nothing."""
    for generation in sorted({item.facts.generation for item in placed}, reverse=True):
        ranks = [_rank_of(wanted, placed, generation, spec) for spec in wanted.specs]
        found = tuple(item for item in ranks if item is not None)
        if len(found) == len(ranks):
            return found
    return ()


def _rank_of(
    wanted: Wanted, placed: Sequence[_Placed], generation: int, spec: ContainerSpec
) -> _Placed | None:
    """The container of a generation that runs a spec on the spec's own node."""
    for item in placed:
        here = item.node == spec.node and item.facts.generation == generation
        if here and wanted.runs(item.facts, spec):
            return item
    return None


def _keep(
    wanted: Wanted,
    states: Mapping[str, NodeState],
    placed: Sequence[_Placed],
    serving: Sequence[_Placed],
) -> Plan:
    """The plan when the wanted ranks run already: at most confirm them, and tidy up."""
    generation = serving[0].facts.generation
    rest = [item for item in placed if item not in serving]
    confirmed = any(not _on_trial(item) for item in serving)
    names = [(item.node, item.facts.name) for item in serving]
    trials = [(item.node, item.facts.name) for item in serving if _on_trial(item)]
    settled = [item for item in rest if not _on_trial(item)]
    confirm = Confirm(names[0][0], "it was started and never confirmed", tuple(names))
    return _plan(
        generation,
        restore=serving if confirmed else _newest(settled),
        discard=() if confirmed else tuple(names),
        steps=(
            (Phase.PREPARE, images_of(wanted, states)),
            (Phase.CONFIRM, () if confirmed else (confirm,)),
            (Phase.ACCEPT, _accept(trials)),
            (Phase.REMOVE, (*settles(wanted, states), *_remove(rest, _replaced_by(generation)))),
        ),
    )


def _replace(
    wanted: Wanted,
    states: Mapping[str, NodeState],
    placed: Sequence[_Placed],
    models: Mapping[str, tuple[ModelFile, ...]],
) -> Plan:
    """The plan that makes a new generation and switches to it."""
    generation = max([0, *(item.facts.generation for item in placed)]) + 1
    confirmed = {item.facts.generation for item in placed if not _on_trial(item)}
    settled = [item for item in placed if item.facts.generation in confirmed]
    leftovers = [item for item in placed if item.facts.generation not in confirmed]
    running = sorted((item for item in settled if item.facts.running), key=_rank)
    awake = [item for item in running if not item.facts.paused]
    reason = _why(wanted, settled, models)
    names = [(spec.node, spec.name(generation) + TRIAL) for spec in wanted.specs]
    head, *workers = (StartContainer(node, "all ranks exist", name) for node, name in names)
    confirm = Confirm(names[0][0], "a server that has started need not serve", tuple(names))
    return _plan(
        generation,
        # What an interrupted deploy had stopped deserves to run again no less than what we stop;
        # one that was killed while it rolled back has left no trial, and nothing that runs.
        restore=_newest(settled) if leftovers or not running else awake,
        steps=(
            (Phase.CLEAR, _remove(leftovers, "an interrupted deploy left it")),
            (Phase.PREPARE, (*sends(wanted, states), *images_of(wanted, states))),
            *sharing(wanted, states).phases,
            (Phase.CREATE, _create(wanted, generation, reason)),
            (Phase.STOP, [StopContainer(i.node, reason, i.facts.name) for i in running]),
            (Phase.PLACE, places(wanted, states)),
            (Phase.START_WORKERS, workers),
            (Phase.START_HEAD, (head,)),
            (Phase.CONFIRM, (confirm,)),
            (Phase.ACCEPT, _accept(names)),
            (Phase.REMOVE, (*settles(wanted, states), *_remove(settled, _replaced_by(generation)))),
        ),
    )


def _plan(
    generation: int,
    *,
    steps: Iterable[tuple[Phase, Iterable[AnyAction]]],
    restore: Sequence[_Placed],
    discard: tuple[tuple[str, str], ...] = (),
) -> Plan:
    """A plan without its empty steps."""
    filled = ((phase, tuple(actions)) for phase, actions in steps)
    kept = tuple(Step(phase, actions) for phase, actions in filled if actions)
    restarts = not all(item.facts.running for item in restore)
    return Plan(generation, kept, _names(restore), discard, restarts)


def _create(wanted: Wanted, generation: int, reason: str) -> Iterator[AnyAction]:
    for spec in wanted.specs:
        labels = tuple(sorted(spec.labels(wanted.lock_digest, generation).items()))
        yield CreateContainer(spec.node, reason, spec.name(generation) + TRIAL, spec, labels)


def _accept(names: Iterable[tuple[str, str]]) -> Iterator[AnyAction]:
    for node, name in names:
        yield AcceptContainer(node, "the pair answered", name, name.removesuffix(TRIAL))


def _remove(items: Iterable[_Placed], reason: str) -> Iterator[AnyAction]:
    for item in items:
        yield RemoveContainer(item.node, reason, item.facts.name)


def _replaced_by(generation: int) -> str:
    return f"generation {generation} has replaced it"


def _why(
    wanted: Wanted, settled: Sequence[_Placed], models: Mapping[str, tuple[ModelFile, ...]]
) -> str:
    """The first reason, in the order of what weighs most, why the pair has to be replaced."""
    current = _newest(settled)
    if not current:
        return "nothing is deployed yet"
    for spec in wanted.specs:
        here = [item.facts for item in current if item.node == spec.node]
        difference = _difference(wanted, here[0], spec) if here else f"{spec.node} has no rank"
        if difference:
            return difference
    changed = ", ".join(node for node, files in models.items() if files)
    return f"model files differ on {changed}"


def _difference(wanted: Wanted, facts: ContainerFacts, spec: ContainerSpec) -> str:
    """How a container differs from its spec, in a few words; empty if it does not."""
    if facts.image_id not in wanted.image.engine_ids:
        return "the image is another one"
    if facts.rank != spec.rank or facts.spec_digest != spec.digest:
        return "the container's settings differ"
    if facts.lock_digest != wanted.lock_digest:
        return "the lock is another one"
    if not facts.running:
        return f"rank {facts.rank} on {spec.node} has stopped, exit code {facts.exit_code}"
    if facts.paused:
        return f"rank {facts.rank} on {spec.node} is paused"
    return "" if wanted.has_key(facts, spec) else "the API key is another one"


def _newest(items: Sequence[_Placed]) -> list[_Placed]:
    """The containers of the newest generation among these, head first."""
    newest = max((item.facts.generation for item in items), default=0)
    return sorted((item for item in items if item.facts.generation == newest), key=_rank)


def _names(items: Iterable[_Placed]) -> tuple[tuple[str, str], ...]:
    return tuple((item.node, item.facts.name) for item in items)


def _rank(item: _Placed) -> int:
    return item.facts.rank


def _on_trial(item: _Placed) -> bool:
    return item.facts.name.endswith(TRIAL)
