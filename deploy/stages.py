"""How long each stage of a start may take, so that a rank that never comes is told early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deploy.scene import Stage

if TYPE_CHECKING:
    from builder.manifest import ServeSection

MEETING_SHARE: Final = 3
MEETING_LEAST_S: Final = 120
"""To meet, ranks only have to import vLLM and read the configuration. From a cold disk, or on a
busy machine, that took five minutes; PyTorch itself gives it ten, as a third of 1800 s does."""

LATE_ANSWERS: Final = 2
"""Requests that may miss their deadline: the first may have to compile kernels."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a start may take in all, and one completion, in seconds.

    `meet_s` is for the ranks to meet, from the start on, and `api_s` for the API to answer, from
    then on; None derives them from `start_s`.
    """

    start_s: float
    completion_s: float
    meet_s: float | None = None
    api_s: float | None = None

    def meeting(self) -> float:
        """Seconds from the start until every rank is connected to the head."""
        if self.meet_s is not None:
            return min(self.meet_s, self.start_s)
        return min(self.start_s, max(MEETING_LEAST_S, self.start_s / MEETING_SHARE))

    def deadline(self, reached: Stage, started: float, at: float) -> float:
        """When the stage after `reached` has to be, which itself was reached at `at`.

        Once the API answers a completion has its own time: a start that used up nearly all of its
        time is no reason to ask a server that is up for an answer in a moment.
        """
        whole = started + self.start_s
        if reached is Stage.STARTED:
            return min(whole, started + self.meeting())
        if reached is Stage.MET:
            return whole if self.api_s is None else min(whole, at + self.api_s)
        return at + LATE_ANSWERS * self.completion_s

    @property
    def late(self) -> str:
        """That completions missed their own limit, in words."""
        return f"no completion within {self.completion_s:g} s, {LATE_ANSWERS} times"

    def missed(self, reached: Stage) -> str:
        """What did not happen in time after a stage, with the limit and its key."""
        if reached is Stage.STARTED and self.meeting() < self.start_s:
            key = "rendezvous_timeout_s"
            return f"the ranks have not met within {self.meeting():g} s of the start ({key})"
        if reached is Stage.MET and self.api_s is not None and self.api_s < self.start_s:
            return f"the API does not answer {self.api_s:g} s after the ranks met (api_timeout_s)"
        if reached is Stage.API:
            limit_s = LATE_ANSWERS * self.completion_s
            return f"the API is up, and has not completed a prompt within {limit_s:g} s"
        return f"no completion within {self.start_s:g} s of the start (start_timeout_s)"


def limits_of(serve: ServeSection) -> Limits:
    """The limits that a manifest sets."""
    return Limits(
        start_s=serve.start_timeout_s,
        completion_s=serve.completion_timeout_s,
        meet_s=serve.rendezvous_timeout_s,
        api_s=serve.api_timeout_s,
    )
