"""Waiting until a pair that was started answers, or until it is clear that it will not.

Only a real completion counts: vLLM's health route asks no rank and stays 200 when one is lost. And
both ranks are watched, since in most failed starts one has ended while the other waits in silence.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from deploy.errors import (
    DeployInterruptedError,
    NoCompletionError,
    RankEnd,
    StartFailedError,
)
from deploy.state import Completion, Outcome

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from deploy.state import RankState

POLL_S: Final = 0.3
LATE_ANSWERS: Final = 2
"""Requests that may miss their deadline: the first may have to compile kernels."""


class Watched(Protocol):
    """What confirming needs of one node."""

    def rank(self, name: str) -> RankState:
        """Whether a container runs."""

    def log(self, name: str) -> str:
        """The last lines of a container's log."""

    def complete(self, timeout_s: float) -> Completion:
        """What the server on this node answers to a short request for a completion."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a start may take in all, and one completion, in seconds."""

    start_s: float
    completion_s: float


def confirm(
    ranks: Sequence[tuple[str, str]],
    nodes: Mapping[str, Watched],
    limits: Limits,
    stopped: threading.Event,
) -> Completion:
    """The first completion of a pair; `ranks` are (node, container name), head first.

    Raises StartFailedError as soon as any rank has ended, NoCompletionError when the server
    refuses, misses its deadline twice, or is not up in time, DeployInterruptedError when `stopped`
    is set.
    """
    deadline = time.monotonic() + limits.start_s
    late = 0
    answer = Completion(Outcome.NOT_UP)
    why = f"no completion within {limits.start_s:g} s of the start"
    while (left_s := deadline - time.monotonic()) > 0:
        answer = _ask(ranks, nodes, min(left_s, limits.completion_s), stopped)
        if answer.outcome is Outcome.ANSWERED:
            return answer
        late += answer.outcome is Outcome.TOO_LATE
        if late == LATE_ANSWERS:
            why = f"no completion within {limits.completion_s:g} s, twice"
            break
        if answer.outcome is Outcome.REFUSED:
            why = "the server refused to complete a prompt"
            break
        stopped.wait(POLL_S)
    states = [nodes[node].rank(name) for node, name in ranks]
    raise NoCompletionError(why, answer.text, _ends(ranks, nodes, states))


def _ask(
    ranks: Sequence[tuple[str, str]],
    nodes: Mapping[str, Watched],
    timeout_s: float,
    stopped: threading.Event,
) -> Completion:
    """One request to the head, given up as soon as a rank has ended or the user has had enough."""
    pool = ThreadPoolExecutor(1)
    try:
        request = pool.submit(nodes[ranks[0][0]].complete, timeout_s)
        while not wait([request], timeout=POLL_S).done:
            _require_running(ranks, nodes)
            _require_wanted(stopped)
        _require_running(ranks, nodes)
        _require_wanted(stopped)
        return request.result()
    finally:
        # A request that is given up ends with the connection it goes through.
        pool.shutdown(wait=False)


def _require_wanted(stopped: threading.Event) -> None:
    if stopped.is_set():
        raise DeployInterruptedError


def _require_running(ranks: Sequence[tuple[str, str]], nodes: Mapping[str, Watched]) -> None:
    states = [nodes[node].rank(name) for node, name in ranks]
    if all(state.running for state in states):
        return
    ends = _ends(ranks, nodes, states)
    order = sorted(
        range(len(ranks)), key=lambda rank: (states[rank].running, states[rank].finished_at)
    )
    raise StartFailedError([ends[rank] for rank in order])


def _ends(
    ranks: Sequence[tuple[str, str]], nodes: Mapping[str, Watched], states: Sequence[RankState]
) -> list[RankEnd]:
    return [
        RankEnd(
            node=node,
            rank=rank,
            container=name,
            exit_code=None if state.running else state.exit_code,
            out_of_memory=state.out_of_memory,
            log=nodes[node].log(name),
        )
        for rank, ((node, name), state) in enumerate(zip(ranks, states, strict=True))
    ]
