"""Waiting until a pair that was started answers, or until it is clear that it will not.

Only real completions count: vLLM's health route asks no rank and stays 200 when one is lost. All
ranks are watched, since in most failed starts one has ended while the other waits in silence; and
all logs are read after the answer, since a rank can fail every step while its client sees 200.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Final

from deploy.diagnosis import Verdict, diagnose
from deploy.errors import (
    DeployInterruptedError,
    NoCompletionError,
    RankChangedError,
    RankLogError,
    StartFailedError,
)
from deploy.logscan import failures_in, nccl_failures_in
from deploy.scene import Scene, Stage
from deploy.serving import meeting_point, serving_at
from deploy.stages import LATE_ANSWERS, Limits, limits_of
from deploy.state import Completion, Outcome
from deploy.watching import RankEndedError, Ranks, Watched

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from builder.errors import SparklockError
    from deploy.state import RankState

    Created: TypeAlias = Mapping[tuple[str, str], Mapping[str, str]]

__all__ = ["Limits", "Watched", "confirm", "limits_of", "why_silent"]

POLL_S: Final = 0.3
MEETING_POLL_S: Final = 1.0
"""Between two looks at the sockets of the nodes, each of which runs a command there."""

AT_ONCE: Final = 2
"""Requests that follow the first answer, together: some builds answer one and die of the next."""

SCANNED_LINES: Final = 5000
"""Of a log, to find a failure in it."""

REFUSED: Final = "the server refused to complete a prompt"
NOT_ALL: Final = f"one request was answered, and of {AT_ONCE} at once not all were"


def confirm(  # noqa: PLR0913 - the last two are for who has them
    ranks: Sequence[tuple[str, str]],
    nodes: Mapping[str, Watched],
    limits: Limits,
    stopped: threading.Event,
    *,
    told: Callable[[str], None] = lambda _: None,
    created: Created | None = None,
) -> Completion:
    """The first completion of a pair; `ranks` are (node, container name), head first.

    Where it serves is read from the head's own command, so that an older generation is confirmed
    by its own settings. `created` are the labels that the containers of `ranks` must have. `told`
    is called with each stage that is reached.

    Raises StartFailedError as soon as any rank has ended, NoCompletionError when a stage is not
    reached in time or the server refuses, RankLogError when a rank's log tells of a failure though
    the answers came, RankChangedError when a container is not the one that was started,
    DeployInterruptedError when `stopped` is set.
    """
    return _Start(Ranks(ranks, nodes), limits, stopped, told).confirmed(created or {})


def why_silent(
    ranks: Sequence[tuple[str, str]], nodes: Mapping[str, Watched], answer: Completion
) -> Verdict:
    """Why a pair that runs probably does not answer, told from all its nodes; raises nothing."""
    scenes, _ = Ranks(ranks, nodes).scenes()
    head = scenes[0].state
    command = () if head is None else head.command
    stage = Stage.MET if answer.outcome is Outcome.NOT_UP else Stage.API
    return diagnose(Scene(stage, scenes, serving_at(command), meeting_point(command), answer))


class _Start:
    """One start that is watched."""

    def __init__(
        self, ranks: Ranks, limits: Limits, stopped: threading.Event, told: Callable[[str], None]
    ) -> None:
        self._ranks = ranks
        self._limits = limits
        self._stopped = stopped
        self._told = told
        self._started = self._reached_at = time.monotonic()
        self._stage = Stage.STARTED
        self._answer = Completion(Outcome.NOT_UP)
        self._first: list[RankState] = []
        self._command: tuple[str, ...] = ()

    def confirmed(self, created: Created) -> Completion:
        """The first completion, once all else has been found right as well."""
        try:
            self._first = self._ranks.states()
            self._command = self._first[0].command
            _require_created(self._ranks.places, self._first, created)
            self._await_api()
            answer = self._await_completion()
            now = self._ranks.running()
        except RankEndedError:
            raise self._ended() from None
        _require_same(self._ranks.places, self._first, now)
        return answer

    def _await_api(self) -> None:
        """Return once something answers on the API's port."""
        at, meeting = serving_at(self._command), meeting_point(self._command)
        looked = 0.0
        while not self._ranks.head.answers(at):
            self._ranks.running()
            now = time.monotonic()
            if self._stage is Stage.STARTED and now - looked >= MEETING_POLL_S:
                looked = now
                if self._ranks.have_met(meeting):
                    self._reach(Stage.MET)
            self._require_time()
            self._stopped.wait(POLL_S)
            self._require_wanted()
        self._reach(Stage.API)

    def _await_completion(self) -> Completion:
        """The first completion, when those after it have come too and no log tells of a failure."""
        late = 0
        while True:
            before = self._newest_lines()
            (self._answer,) = self._ask(1)
            if self._answer.outcome is Outcome.ANSWERED:
                answer = self._answer
                self._require_more()
                self._require_quiet(before)
                self._reach(Stage.ANSWERED)
                return answer
            late += self._answer.outcome is Outcome.TOO_LATE
            if late == LATE_ANSWERS:
                raise self._no_completion(self._limits.late)
            if self._answer.outcome is Outcome.REFUSED:
                raise self._no_completion(REFUSED)
            self._require_time()
            self._stopped.wait(POLL_S)

    def _ask(self, count: int) -> list[Completion]:
        """Requests to the head, given up when a rank has ended or the user has had enough."""
        pool = ThreadPoolExecutor(count)
        at = serving_at(self._command)
        complete = partial(self._ranks.head.complete, self._limits.completion_s, at)
        try:
            requests = [pool.submit(complete) for _ in range(count)]
            while wait(requests, timeout=POLL_S).not_done:
                self._ranks.running()
                self._require_wanted()
            self._ranks.running()
            self._require_wanted()
            return [request.result() for request in requests]
        finally:
            # A request that is given up ends with the connection it goes through.
            pool.shutdown(wait=False)

    def _newest_lines(self) -> list[str]:
        """When each rank wrote its newest line, by its node's clock."""
        begins = [state.log_from for state in self._first]
        logs = self._ranks.logs(begins, 1)
        return [lines[-1].at if lines else begin for lines, begin in zip(logs, begins, strict=True)]

    def _require_more(self) -> None:
        """Nothing, when requests that come together are answered as well."""
        for answer in self._ask(AT_ONCE):
            self._answer = answer
            if answer.outcome is not Outcome.ANSWERED:
                raise self._no_completion(NOT_ALL)

    def _require_quiet(self, before: Sequence[str]) -> None:
        """Nothing, if no rank logged a failure while it answered, nor NCCL one since the start."""
        begins = [state.log_from for state in self._first]
        logs = self._ranks.logs(begins, SCANNED_LINES)
        for rank, (node, _) in enumerate(self._ranks.places):
            asked = (line for line in logs[rank] if line.at > before[rank])
            found = failures_in(asked) or nccl_failures_in(logs[rank])
            if found:
                raise RankLogError(node, rank, found)

    def _require_time(self) -> None:
        if time.monotonic() >= self._limits.deadline(self._stage, self._started, self._reached_at):
            raise self._no_completion(self._limits.missed(self._stage))

    def _require_wanted(self) -> None:
        if self._stopped.is_set():
            raise DeployInterruptedError

    def _reach(self, stage: Stage) -> None:
        self._stage = stage
        self._reached_at = time.monotonic()
        self._told(f"{stage.value}, {self._reached_at - self._started:.1f} s after the start")

    def _ended(self) -> StartFailedError:
        scene, faults = self._scene()
        return StartFailedError(scene, diagnose(scene), faults)

    def _no_completion(self, what: str) -> NoCompletionError:
        scene, faults = self._scene()
        return NoCompletionError(what, scene, diagnose(scene), faults)

    def _scene(self) -> tuple[Scene, tuple[SparklockError, ...]]:
        """What all nodes show of this start now, and why some do not."""
        ranks, faults = self._ranks.scenes()
        at, meeting = serving_at(self._command), meeting_point(self._command)
        return Scene(self._stage, ranks, at, meeting, self._answer), faults


def _require_created(
    places: Sequence[tuple[str, str]], states: Sequence[RankState], created: Created
) -> None:
    """Nothing, if every container has the labels that it was created with."""
    for rank, (place, state) in enumerate(zip(places, states, strict=True)):
        found = dict(state.identity.labels)
        for key, value in sorted(created.get(place, {}).items()):
            if found.get(key) != value:
                raise RankChangedError(place[0], rank, key, value, found.get(key, "no such label"))


def _require_same(
    places: Sequence[tuple[str, str]], before: Sequence[RankState], now: Sequence[RankState]
) -> None:
    """Nothing, if every rank still is the same start of the same container."""
    for rank, ((node, _), was, found) in enumerate(zip(places, before, now, strict=True)):
        for what, old, new in (
            ("the container's id", was.identity.id, found.identity.id),
            ("the image's id", was.identity.image_id, found.identity.image_id),
            ("the time it was started", was.identity.started_at, found.identity.started_at),
            ("its labels", str(was.identity.labels), str(found.identity.labels)),
        ):
            if old != new:
                raise RankChangedError(node, rank, what, old, new)
