"""The generations of a cluster, as the names and labels of its containers tell them on all nodes.

No state is kept anywhere else. A generation counts as confirmed once the name of one of its
containers says so, since the first renaming follows the completion. The *current* generation is the
one whose names have no end; when a crash between two renamings left more than one, it is the one
that runs, else the one that was started last.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from deploy.serving import serving_at
from deploy.state import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from deploy.serving import ServingAddress
    from deploy.state import ContainerFacts


@dataclass(frozen=True, slots=True)
class Placed:
    """A container of the cluster, running or not, and the node it stands on."""

    node: str
    facts: ContainerFacts

    @property
    def named(self) -> tuple[str, str]:
        """Node and container name."""
        return self.node, self.facts.name


@dataclass(frozen=True, slots=True)
class Generation:
    """All containers of one deployment, head first."""

    number: int
    ranks: tuple[Placed, ...]

    @property
    def confirmed(self) -> bool:
        """Whether it has ever answered a completion."""
        return any(item.facts.standing.confirmed for item in self.ranks)

    @property
    def claims_to_serve(self) -> bool:
        """Whether one of its containers has the name of a current one."""
        return any(item.facts.standing is Standing.CURRENT for item in self.ranks)

    @property
    def failed(self) -> bool:
        """Whether it was left for inspection after a failed deploy."""
        return not self.confirmed and any(r.facts.standing is Standing.FAILED for r in self.ranks)

    @property
    def size(self) -> int:
        """How many ranks it was made of, by the command of any of them."""
        return max((_nnodes(item.facts.command) for item in self.ranks), default=0)

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks of which no container is left on the nodes that were asked."""
        there = {item.facts.rank for item in self.ranks}
        return tuple(rank for rank in range(self.size) if rank not in there)

    @property
    def whole(self) -> bool:
        """Whether each of its ranks is there, once, on a node of its own, all of one deployment."""
        found = [item.facts.rank for item in self.ranks]
        nodes = {item.node for item in self.ranks}
        return found == list(range(self.size)) and len(nodes) == len(found) and not self._mixed

    @property
    def _mixed(self) -> bool:
        """Whether its containers are of several deployments, which have counted alike.

        As when a node left the manifest's list and came back after the others had begun anew.
        """
        made = {(item.facts.lock_digest, _nnodes(item.facts.command)) for item in self.ranks}
        return len(made) > 1

    @property
    def awake(self) -> bool:
        """Whether every rank is there and runs."""
        return self.whole and all(item.facts.awake for item in self.ranks)

    @property
    def running(self) -> tuple[Placed, ...]:
        """The ranks whose container runs, or is paused."""
        return tuple(item for item in self.ranks if item.facts.running)

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Node and container name of each rank, head first."""
        return tuple(item.named for item in self.ranks)

    @property
    def lock_digest(self) -> str:
        """The digest of the lock it was made from, by its labels; empty if they do not tell."""
        return next((r.facts.lock_digest for r in self.ranks if r.facts.lock_digest), "")

    @property
    def image(self) -> str:
        """The name of its image; empty if its containers do not tell."""
        return next((r.facts.image for r in self.ranks if r.facts.image), "")

    @property
    def model_digest(self) -> str:
        """The digest of the list of files of its model; empty if its labels do not tell."""
        return next((r.facts.model_digest for r in self.ranks if r.facts.model_digest), "")

    @property
    def started_at(self) -> str:
        """When its head was started last, by that node's clock; empty if it never was."""
        return next((item.facts.started_at for item in self.ranks), "")

    @property
    def created_at(self) -> str:
        """When its first container was made, by that node's clock; empty if that is not known."""
        return min((i.facts.created_at for i in self.ranks if i.facts.created_at), default="")

    @property
    def at(self) -> ServingAddress | None:
        """Where its head answers, by the head's own command; None if the head is gone."""
        heads = (item for item in self.ranks if item.facts.rank == 0)
        return next((serving_at(item.facts.command) for item in heads), None)

    def why_incomplete(self) -> str:
        """Why it cannot serve: which ranks are gone, or are there twice; empty if it can."""
        if self.whole:
            return ""
        if self.missing:
            ranks = ", ".join(map(str, self.missing))
            return f"generation {self.number} has no container of rank {ranks} any more"
        if self._mixed:
            return f"generation {self.number} has containers of different deployments"
        return f"generation {self.number} has other containers than one on each node"


@dataclass(frozen=True)
class History:
    """Every generation that the nodes tell of, by number, and what belongs to none.

    `strays` have the cluster's label and no readable generation or rank.
    """

    generations: tuple[Generation, ...]
    strays: tuple[Placed, ...]

    @cached_property
    def current(self) -> Generation | None:
        """The generation that serves or is to serve; None when none was ever confirmed."""
        claims = [item for item in self.generations if item.claims_to_serve]
        return max(claims, key=_weight, default=None)

    @property
    def superseded(self) -> tuple[Generation, ...]:
        """The other generations that were confirmed once, newest first."""
        confirmed = (item for item in self.generations if item.confirmed)
        others = (item for item in confirmed if item is not self.current)
        return tuple(sorted(others, key=lambda item: -item.number))

    @property
    def unconfirmed(self) -> tuple[Generation, ...]:
        """The generations that never answered."""
        return tuple(item for item in self.generations if not item.confirmed)

    @property
    def newest(self) -> int:
        """The highest number of all; 0 if there is none."""
        return max((item.number for item in self.generations), default=0)

    @property
    def containers(self) -> tuple[Placed, ...]:
        """Every container, by generation and rank, those of none last."""
        return (*(rank for item in self.generations for rank in item.ranks), *self.strays)

    def find(self, number: int) -> Generation | None:
        """The generation of a number; None if the nodes have none."""
        return next((item for item in self.generations if item.number == number), None)


def history_of(containers: Mapping[str, Iterable[ContainerFacts]]) -> History:
    """The generations in the containers of each node."""
    placed = [Placed(node, facts) for node in containers for facts in containers[node]]
    placed.sort(key=lambda item: (item.facts.rank, item.node, item.facts.name))
    found: dict[int, list[Placed]] = defaultdict(list)
    strays: list[Placed] = []
    for item in placed:
        readable = item.facts.generation >= 0 and item.facts.rank >= 0
        (found[item.facts.generation] if readable else strays).append(item)
    generations = (Generation(number, tuple(found[number])) for number in sorted(found))
    return History(tuple(generations), tuple(strays))


def replaced_lock(history: History, lock_digest: str) -> tuple[Generation, Generation] | None:
    """The generation of a lock that a newer one has superseded, and the current one; or None.

    None as well when a deploy of this very lock was begun and did not end: it was asked for.
    """
    current = history.current
    if current is None or current.lock_digest == lock_digest:
        return None
    if any(g.lock_digest == lock_digest for g in history.unconfirmed):
        return None
    older = (g for g in history.superseded if g.number < current.number)
    found = next((g for g in older if g.lock_digest == lock_digest), None)
    return None if found is None else (found, current)


def _weight(generation: Generation) -> tuple[bool, bool, str, int]:
    """What makes one of several generations with current names the current one."""
    return (
        generation.awake,
        bool(generation.running),
        generation.started_at,
        generation.number,
    )


def _nnodes(command: Sequence[str]) -> int:
    """How many ranks a command says that there are: one, if it says nothing."""
    values = (value for word, value in pairwise(command) if word == "--nnodes")
    return next((int(value) for value in values if value.isdecimal()), 1)


def short(digest: str) -> str:
    """A digest cut short for people, such as `0123456789ab`; `unknown` if there is none."""
    return digest.partition(":")[2][:12] or "unknown"
