"""The ranks of one start, asked all at once: who runs, who has met whom, what each one shows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from builder.errors import SparklockError
from deploy.scene import NodeScene, RankScene, has_met
from deploy.together import together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deploy.scene import Socket
    from deploy.serving import MeetingPoint, ServingAddress
    from deploy.state import Completion, LogLine, RankState

R = TypeVar("R")

DIAGNOSED_LINES: Final = 400
"""Of a log, to find why a start failed."""


class Watched(Protocol):
    """What confirming needs of one node."""

    def rank(self, name: str) -> RankState:
        """Whether a container runs, and which start of which container it is."""

    def log_since(self, name: str, after: str, tail: int) -> tuple[LogLine, ...]:
        """What a container wrote after a time of its node's clock: the last lines of that."""

    def sockets(self) -> tuple[Socket, ...]:
        """The TCP sockets of the node."""

    def look(self, container_id: str) -> NodeScene:
        """What the node's kernel tells of itself and of a container."""

    def answers(self, at: ServingAddress) -> bool:
        """Whether anything answers a request where the server of this node listens."""

    def complete(self, timeout_s: float, at: ServingAddress | None = None) -> Completion:
        """What the server on this node answers to a short request for a completion."""


class RankEndedError(Exception):
    """A rank has ended, or cannot be asked any more: for the watcher alone, never for a user."""


class Ranks:
    """The containers of one start, as (node, container name), head first, and their nodes.

    Methods raise RankEndedError when one of them has ended or cannot be asked; `scenes` then tells
    what all of them show.
    """

    def __init__(self, places: Sequence[tuple[str, str]], nodes: Mapping[str, Watched]) -> None:
        self.places = tuple(places)
        self._nodes = [nodes[node] for node, _ in places]
        self._ended: frozenset[int] = frozenset()

    @property
    def head(self) -> Watched:
        """The node of rank 0."""
        return self._nodes[0]

    def states(self) -> list[RankState]:
        """The state of every rank, ended or not."""
        return self._ask(lambda rank: self._nodes[rank].rank(self.places[rank][1]))

    def running(self) -> list[RankState]:
        """The state of every rank, all of which run."""
        states = self.states()
        self._ended = frozenset(rank for rank, state in enumerate(states) if not state.running)
        if self._ended:
            raise RankEndedError
        return states

    def have_met(self, meeting: MeetingPoint | None) -> bool:
        """Whether every other rank is connected to where they meet; one alone has met at once."""
        if meeting is None:
            return True
        found = self._ask(lambda rank: self._nodes[rank].sockets() if rank else ())
        return all(has_met(sockets, meeting) for sockets in found[1:])

    def logs(self, after: Sequence[str], tail: int) -> list[tuple[LogLine, ...]]:
        """What every rank wrote later than its time of `after`: the last `tail` lines of that."""

        def log(rank: int) -> tuple[LogLine, ...]:
            return self._nodes[rank].log_since(self.places[rank][1], after[rank], tail)

        return self._ask(log)

    def scenes(self) -> tuple[tuple[RankScene, ...], tuple[SparklockError, ...]]:
        """What every rank and its node show now, and why some cannot be asked; raises nothing."""
        found, failures = self._tried(self._scene)
        scenes = []
        for rank, (node, name) in enumerate(self.places):
            if rank in found:
                scenes.append(found[rank])
            else:
                fault = failures[rank].messages[0].what
                scenes.append(RankScene(node, rank, name, None, fault=fault))
        return tuple(scenes), tuple(failures[rank] for rank in sorted(failures))

    def _scene(self, rank: int) -> RankScene:
        node, (node_name, name) = self._nodes[rank], self.places[rank]
        state = node.rank(name)
        lines: tuple[LogLine, ...] = ()
        kernel, fault = NodeScene(), ""
        try:
            kernel = node.look(state.identity.id)
            lines = node.log_since(name, state.log_from, DIAGNOSED_LINES)
        except SparklockError as error:  # what is known already still counts
            fault = error.messages[0].what
        return RankScene(
            node=node_name,
            rank=rank,
            container=name,
            state=state,
            log=tuple(line.text for line in lines),
            kernel=kernel,
            fault=fault,
            first=rank in self._ended and len(self._ended) < len(self.places),
        )

    def _ask(self, question: Callable[[int], R]) -> list[R]:
        found, failures = self._tried(question)
        if failures:
            raise RankEndedError
        return [found[rank] for rank in range(len(self.places))]

    def _tried(
        self, question: Callable[[int], R]
    ) -> tuple[dict[int, R], dict[int, SparklockError]]:
        """What the nodes of all ranks answer at the same time, and the failures of the others."""
        failures: dict[int, SparklockError] = {}

        def tried(rank: int) -> list[R]:
            try:
                return [question(rank)]
            except SparklockError as error:
                failures[rank] = error
                return []

        asked = range(len(self.places))
        answers = together({str(rank): partial(tried, rank) for rank in asked})
        found = {rank: answer for rank in asked for answer in answers[str(rank)]}
        return found, failures
