"""(generations, number) -> Plan: what has to change on the nodes for an older generation to serve.

Nothing is made and nothing brought: the containers are there, stopped, with all they were made of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deploy import switching
from deploy.actions import Confirm, Phase, Restore
from deploy.generations_errors import (
    CannotReturnError,
    NoGenerationError,
    OtherModelError,
)
from deploy.replaced import outlived, put_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deploy.actions import Plan, RestoreModel
    from deploy.generations import Generation, History
    from deploy.state import KeptModel


def plan_rollback(history: History, number: int | None, kept: Mapping[str, KeptModel]) -> Plan:
    """The actions after which generation `number` serves; None for the one that served before.

    The one that served before is the current one when a deploy was interrupted or left its failed
    ranks, else the newest older than the current, else the newest other one. What was interrupted
    is finished or undone, so the number may be the current generation's; `kept` is what each node
    keeps of replaced model files. Raises NoGenerationError, CannotReturnError and OtherModelError,
    before anything is changed.
    """
    target = _target(history, number)
    if not target.whole:
        others = [item.number for item in history.superseded if item.whole]
        raise CannotReturnError(target.number, target.why_incomplete(), others)
    _require_model(history, target)
    current = history.current
    replaced = tuple(put_back(target, kept))
    stays = target.awake and not replaced
    steps = (
        (Phase.CLEAR, switching.leftovers(history)),
        *(_confirmed(history, target) if stays else _started(history, target, replaced)),
        (Phase.ACCEPT, switching.accept(target.ranks)),
        (Phase.RETIRE, switching.retire(history, target.number)),
        (Phase.REMOVE, outlived(target, kept)),
    )
    back = switching.restoring(current, kept)
    if current is target and not target.awake:
        back = Restore(target.number, why_not=f"generation {target.number} did not serve before")
    plan = switching.plan_of(target.number, steps, back, at=target.at)
    return replace(plan, verb="rollback", again=f"inv rollback {target.number}")


def _target(history: History, number: int | None) -> Generation:
    confirmed = sorted(item.number for item in history.generations if item.confirmed)
    if number is not None:
        found = history.find(number)
        if found is None or not found.confirmed:
            raise NoGenerationError(number, confirmed, _number(history.current))
        return found
    current = history.current
    if current is not None and current.whole and history.unconfirmed:
        return current  # the way back from a deploy that did not end is the pair before it
    limit = _number(current) or history.newest + 1
    older = [item for item in history.superseded if item.number < limit]
    for item in (*older, *history.superseded):
        return item
    raise NoGenerationError(None, confirmed, _number(current))


def _number(generation: Generation | None) -> int:
    return 0 if generation is None else generation.number


def _require_model(history: History, target: Generation) -> None:
    """OtherModelError if the model's files on the nodes are not those it was made for.

    They are those of the pair that was confirmed last: what an unconfirmed one replaced is kept.
    """
    latest = history.current or max(history.superseded, key=lambda item: item.number)
    known = target.model_digest and latest.model_digest
    if known and target.model_digest != latest.model_digest:
        raise OtherModelError(target.number, latest.number, target.lock_digest)


def _started(
    history: History, target: Generation, replaced: tuple[RestoreModel, ...]
) -> Iterator[switching.Part]:
    """Stop what runs, all of it, and start the target's ranks together, with their model."""
    reason = f"generation {target.number} is to serve again"
    unconfirmed = {item for generation in history.unconfirmed for item in generation.ranks}
    rest = (item for item in history.containers if item not in unconfirmed)
    workers, head = switching.start(target.names, reason)
    yield Phase.STOP, switching.stop(rest, reason)
    yield Phase.PLACE, replaced
    yield Phase.START_WORKERS, workers
    yield Phase.START_HEAD, head
    yield Phase.CONFIRM, (_confirm(target),)


def _confirmed(history: History, target: Generation) -> Iterator[switching.Part]:
    """Leave running what runs, and ask it if it was started for a rollback that did not end."""
    others = (item for item in history.containers if item.facts.generation != target.number)
    yield Phase.STOP, switching.stop(others, f"generation {target.number} is to serve")
    if target is not history.current:
        yield Phase.CONFIRM, (_confirm(target),)


def _confirm(target: Generation) -> Confirm:
    return Confirm(target.ranks[0].node, "it was confirmed once, and that is past", target.names)
