"""What `inv generations` and `inv rollback` come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from deploy.generations import short

if TYPE_CHECKING:
    from builder.digest import JsonValue
    from deploy.actions import Plan
    from deploy.generations import Generation, History
    from deploy.generations_gc import Sweep

HEAD = ("no.", "state", "lock", "image", "created (UTC)", "started (UTC)", "ranks")


@dataclass(frozen=True, slots=True)
class GenerationsReport:
    """Every generation that the nodes have, newest first."""

    cluster: str
    history: History

    def text(self) -> str:
        """The generations as a table of plain text."""
        if not self.history.generations:
            return f"{self.cluster}: nothing is deployed"
        rows = [HEAD, *(self._row(item) for item in reversed(self.history.generations))]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines = (
            "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
            for row in rows
        )
        return "\n".join([f"{self.cluster}:", *(f"  {line.rstrip()}" for line in lines)])

    def as_json(self) -> dict[str, JsonValue]:
        """The generations as a JSON object."""
        current = self.history.current
        return {
            "cluster": self.cluster,
            "current": None if current is None else current.number,
            "generations": [self._as_json(item) for item in reversed(self.history.generations)],
        }

    def _row(self, item: Generation) -> tuple[str, ...]:
        at = [rank.node if item.whole else f"{rank.node} {rank.facts.rank}" for rank in item.ranks]
        nodes = ", ".join(at)
        return (
            str(item.number),
            self._state(item),
            short(item.lock_digest),
            item.image.rpartition(":")[2] or "unknown",
            _moment(item.created_at),
            _moment(item.started_at),
            nodes,
        )

    def _state(self, item: Generation) -> str:
        told = "kept, stopped"
        if item is self.history.current:
            told = "current, runs" if item.awake else "current, does not run"
        elif not item.confirmed:
            told = "failed, left for inspection" if item.failed else "never confirmed"
        elif item.running:
            told = "kept, but runs"
        return told if item.whole else f"{told}, not complete"

    def _as_json(self, item: Generation) -> dict[str, JsonValue]:
        return {
            "generation": item.number,
            "current": item is self.history.current,
            "confirmed": item.confirmed,
            "failed": item.failed,
            "complete": item.whole,
            "running": item.awake,
            "lock_digest": item.lock_digest,
            "image": item.image,
            "created_at": item.created_at,
            "started_at": item.started_at,
            "ranks": [
                {
                    "rank": rank.facts.rank,
                    "node": rank.node,
                    "container": rank.facts.name,
                    "running": rank.facts.running,
                    "standing": rank.facts.standing.name.lower(),
                }
                for rank in item.ranks
            ],
        }


def _moment(text: str) -> str:
    """A node's time for people, to the minute: `2026-11-30 21:00`."""
    return text[:16].replace("T", " ") or "never"


@dataclass(frozen=True, slots=True)
class RollbackReport:
    """What a rollback did; `answer` is the completion, empty if that generation served already.

    `before` is the generation that was current, 0 if there was none; `returns` says whether it is
    complete, so that a rollback can bring it back.
    """

    cluster: str
    plan: Plan
    before: int
    lock_digest: str
    answer: str
    returns: bool = True

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return not self.plan.up_to_date

    def text(self) -> str:
        """What was done as lines of plain text."""
        number = self.plan.generation
        if not self.changed:
            return f"{self.cluster}: generation {number} serves already; nothing was changed"
        lines = [f"{self.cluster}: generation {number} serves again"]
        if self.before not in {0, number}:
            way = f"inv rollback {self.before} returns" if self.returns else "it is not complete"
            lines.append(f"  kept    generation {self.before}; {way}")
        lines.append(f"  lock    sha256:{self.lock_digest.partition(':')[2] or 'unknown'}")
        if self.answer:
            lines.append(f"  answer  {self.answer.strip()!r}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, JsonValue]:
        """What was done as a JSON object."""
        return {
            "cluster": self.cluster,
            "changed": self.changed,
            "generation": self.plan.generation,
            "before": self.before,
            "lock_digest": self.lock_digest,
            "answer": self.answer,
            "plan": self.plan.as_json(),
        }


class Collected(Protocol):
    """What went from the local store."""

    def text(self) -> str:
        """Lines of plain text."""

    def as_json(self) -> dict[str, JsonValue]:
        """A JSON object."""


@dataclass(frozen=True, slots=True)
class CollectedReport:
    """What went from the local store and, if they were asked, from the nodes."""

    store: Collected
    sweep: Sweep | None

    def text(self) -> str:
        """Both as lines of plain text."""
        nodes = [] if self.sweep is None else [self.sweep.text()]
        return "\n".join([*nodes, self.store.text()])

    def as_json(self) -> dict[str, JsonValue]:
        """Both as one JSON object."""
        nodes: JsonValue = None if self.sweep is None else self.sweep.as_json()
        return {**self.store.as_json(), "cluster": nodes}
