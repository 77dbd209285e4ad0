"""What an interruption or a hand has left half done, each with the command that ends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deploy.state import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import JsonValue
    from deploy.generations import Generation, History

DEPLOY = "inv deploy"


@dataclass(frozen=True, slots=True)
class HalfState:
    """Something that is neither one thing nor the other; `command` ends it.

    `comes_to` says what the command does, and what else would do.
    """

    what: str
    command: str
    comes_to: str = ""

    @property
    def remedy(self) -> str:
        """The command, and what it comes to."""
        return f"{self.command} {self.comes_to}".rstrip()

    def text(self) -> str:
        """All in a line."""
        return f"{self.what}: {self.remedy}"

    def as_json(self) -> dict[str, JsonValue]:
        """The command by itself, for scripts, and the sentence."""
        return {"what": self.what, "command": self.command, "remedy": self.remedy}


def half_states(history: History, wanted: int | None = None) -> tuple[HalfState, ...]:
    """What is half done, what stands in the way of serving first; nothing when all is in order.

    `wanted` is the generation that the lock asks for, if the nodes have it: `inv deploy` then
    brings the current one back, and would replace another.
    """
    current = history.current
    again = DEPLOY if current is None or current.number == wanted else _rollback(current)
    return (
        *(_of_current(current, again) if current else ()),
        *_of_superseded(history, again),
        *_of_unconfirmed(history, again),
        *(
            HalfState(f"{i.facts.name} on {i.node} has no readable label", DEPLOY)
            for i in history.strays
        ),
    )


def _rollback(generation: Generation) -> str:
    return f"inv rollback {generation.number}"


def _of_current(current: Generation, again: str) -> Iterator[HalfState]:
    number = current.number
    if not current.whole:
        yield HalfState(f"{current.why_incomplete()}, so it cannot serve", DEPLOY)
        return
    down = [item for item in current.ranks if not item.facts.awake]
    if len(down) == len(current.ranks):
        yield HalfState(f"generation {number} is stopped on all nodes", again)
    elif down:
        ranks = ", ".join(f"rank {item.facts.rank} on {item.node}" for item in down)
        yield HalfState(f"generation {number} does not serve: {ranks} is down", again)
    if any(item.facts.standing is not Standing.CURRENT for item in current.ranks):
        yield HalfState(f"generation {number} was confirmed, and not all its names say so", again)


def _of_superseded(history: History, again: str) -> Iterator[HalfState]:
    for item in history.superseded:
        if item.running:
            yield HalfState(
                f"generation {item.number} was superseded and runs, as in a rollback that was "
                "interrupted",
                _rollback(item),
                f"finishes it, {again} undoes it",
            )
        if item.claims_to_serve:
            what = f"generation {item.number} was superseded, and not all its names say so"
            yield HalfState(what, again)


def _of_unconfirmed(history: History, again: str) -> Iterator[HalfState]:
    for item in history.unconfirmed:
        if item.failed:
            what = f"generation {item.number} failed and was left for inspection"
        else:
            what = f"generation {item.number} was never confirmed, as by an interrupted deploy"
        back = f"; {again} undoes it" if history.current and again != DEPLOY else ""
        ends = "clears it" if item.failed else "finishes it or clears it away"
        yield HalfState(what, DEPLOY, f"{ends}{back}")
