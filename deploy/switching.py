"""The parts of a switch from one generation to another, shared by deploy's and rollback's plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.actions import (
    AcceptContainer,
    Plan,
    RemoveContainer,
    Restore,
    RetireContainer,
    StartContainer,
    Step,
    StopContainer,
)
from deploy.replaced import put_back
from deploy.state import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from deploy.actions import AnyAction, Phase
    from deploy.generations import Generation, History, Placed
    from deploy.serving import ServingAddress
    from deploy.state import KeptModel

    Part: TypeAlias = tuple[Phase, Iterable[AnyAction]]


def plan_of(
    generation: int,
    steps: Iterable[Part],
    restore: Restore,
    *,
    discard: tuple[tuple[str, str], ...] = (),
    at: ServingAddress | None = None,
) -> Plan:
    """A plan without its empty steps."""
    filled = ((phase, tuple(actions)) for phase, actions in steps)
    kept = tuple(Step(phase, actions) for phase, actions in filled if actions)
    return Plan(generation, kept, restore, discard, at)


def restoring(current: Generation | None, kept: Mapping[str, KeptModel]) -> Restore:
    """What a plan that fails has to bring back: the current generation, whole or not at all.

    With those of its model files that the nodes keep, since a deploy was killed that replaced them.
    """
    if current is None:
        return Restore()
    if not current.whole:
        return Restore(current.number, why_not=current.why_incomplete())
    model = tuple(put_back(current, kept))
    return Restore(current.number, current.names, restarts=not current.awake, model=model)


def stop(items: Iterable[Placed], reason: str) -> Iterator[StopContainer]:
    """Stop what runs of these."""
    for item in items:
        if item.facts.running:
            yield StopContainer(item.node, reason, item.facts.name)


def start(
    names: Sequence[tuple[str, str]], reason: str
) -> tuple[tuple[StartContainer, ...], tuple[StartContainer, ...]]:
    """Start these, given head first: the workers', then the head's action."""
    every = tuple(StartContainer(node, reason, name) for node, name in names)
    return every[1:], every[:1]


def accept(items: Iterable[Placed]) -> Iterator[AcceptContainer]:
    """Give these the names of a current generation, as far as they have others."""
    for item in items:
        final = item.facts.name_as(Standing.CURRENT)
        if final != item.facts.name:
            yield AcceptContainer(item.node, "the pair answered", item.facts.name, final)


def retire(history: History, serving: int) -> Iterator[AnyAction]:
    """Keep every other generation that was confirmed once, stopped, under a name that says so."""
    reason = f"generation {serving} has replaced it"
    taken = {item.named for item in history.containers}
    for generation in history.generations:
        if generation.number == serving or not generation.confirmed:
            continue
        for item in generation.ranks:
            name = item.facts.name_as(Standing.OLD)
            if name == item.facts.name:
                continue
            if (item.node, name) in taken:
                yield RemoveContainer(item.node, f"{name} is there already", item.facts.name)
            else:
                taken.add((item.node, name))
                yield RetireContainer(item.node, reason, item.facts.name, name)


def clear(items: Iterable[Placed], reason: str) -> Iterator[RemoveContainer]:
    """Remove these, running or not."""
    for item in items:
        yield RemoveContainer(item.node, reason, item.facts.name)


def leftovers(history: History, keep: int = 0) -> Iterator[RemoveContainer]:
    """Remove every generation that was never confirmed, but for `keep`."""
    for generation in history.unconfirmed:
        if generation.number != keep:
            failed = "a failed deploy left it for inspection"
            reason = failed if generation.failed else "an interrupted deploy left it"
            yield from clear(generation.ranks, reason)
