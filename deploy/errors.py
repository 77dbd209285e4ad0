"""What can go wrong with a deploy as a whole, one class each; exit code 5.

What can go wrong with one node stands in deploy/node_errors.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import Message, NodeError, SparklockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.state import Outcome


class DeployInterruptedError(NodeError):
    """The user, or a signal to end, stopped the work."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        what = "interrupted before the new pair was confirmed"
        return (Message(place="deploy", what=what, remedy="run the task again when you like"),)


class PreflightError(NodeError):
    """Nodes are not fit for what the manifest asks; nothing was changed."""

    def __init__(self, findings: Sequence[Message]) -> None:
        super().__init__(f"{len(findings)} findings")
        self.findings = tuple(findings)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every finding of every node."""
        return self.findings


class NodesFailedError(NodeError):
    """Several nodes failed at the same step; `failures` in the order of the manifest."""

    def __init__(self, failures: Sequence[SparklockError]) -> None:
        super().__init__(f"{len(failures)} nodes failed")
        self.failures = tuple(failures)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all failures."""
        return tuple(message for failure in self.failures for message in failure.messages)


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How a rank was found when a start failed; `exit_code` is None while it runs."""

    node: str
    rank: int
    container: str
    exit_code: int | None
    out_of_memory: bool
    log: str

    @property
    def place(self) -> str:
        """The node and rank, as a message names them."""
        return f"node {self.node}, rank {self.rank}"

    def message(self, *, first: bool) -> Message:
        """The rank's end and its last lines; `first` marks the rank that caused the failure."""
        if self.exit_code is None:
            what, remedy = "its last lines", "it was running: look here for what it waited for"
        elif first:
            what, remedy = "the server ended before the pair answered", "the cause is in its log"
        else:
            what, remedy = "it ended as well", "most likely because the rank above did"
        if self.out_of_memory:
            remedy = "the node ran out of memory: lower gpu-memory-utilization in [serve.args]"
        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        return Message(
            place=self.place,
            what=what,
            found=f"{code}, out of memory" if self.out_of_memory else code,
            detail=self.log or "(the log is empty)",
            remedy=remedy,
        )


class StartFailedError(NodeError):
    """A rank ended before the pair answered; `ends` has the first one to end first."""

    def __init__(self, ends: Sequence[RankEnd]) -> None:
        super().__init__(f"{ends[0].place} ended")
        self.ends = tuple(ends)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The rank that ended first with the end of its own log, then the others with theirs."""
        return tuple(end.message(first=end is self.ends[0]) for end in self.ends)


class NoCompletionError(NodeError):
    """All ranks run and no completion came: refused, too late twice, or not up at all in time."""

    def __init__(self, what: str, said: str, ends: Sequence[RankEnd]) -> None:
        super().__init__(what)
        self.what = what
        self.said = said
        self.ends = tuple(ends)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was asked and said, then the end of every rank's log."""
        asked = Message(
            place="POST /v1/completions",
            what=self.what,
            detail=self.said,
            remedy="see the ranks' last lines below; [serve] of cluster.toml has the time limits",
        )
        return (asked, *(end.message(first=False) for end in self.ends))


class SilentPairError(NodeError):
    """Everything runs as locked, and a request for a completion is not answered."""

    def __init__(self, node: str, timeout_s: float, outcome: Outcome, said: str) -> None:
        super().__init__(node)
        self.node = node
        self.timeout_s = timeout_s
        self.outcome = outcome
        self.said = said

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        return (
            Message(
                place=f"node {self.node}, POST /v1/completions",
                what="the pair runs as locked, but it does not serve; nothing was changed",
                expected=f"a completion within {self.timeout_s:g} s",
                found=self.outcome.value,
                detail=self.said,
                remedy="look at `inv logs`; to start the pair anew: inv stop, then inv deploy",
            ),
        )


class OldPairDownError(NodeError):
    """The old pair was stopped and stays so, since not all of its nodes can be used."""

    def __init__(self, nodes: Sequence[str]) -> None:
        super().__init__(", ".join(nodes))
        self.nodes = tuple(nodes)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        names = ", ".join(self.nodes)
        what = f"the old pair was not started again, because of {names}: one rank serves nothing"
        return (Message(place="deploy", what=what, remedy=f"repair {names}, then inv deploy"),)


@dataclass(frozen=True, slots=True)
class Rollback:
    """What was undone after a failure, in words, and what could not be.

    `serving` names the containers of the old pair that run, as `node: container`;
    `started_again` says that they had been stopped, and are loading their model.
    """

    done: tuple[str, ...]
    serving: tuple[str, ...]
    failures: tuple[SparklockError, ...]
    started_again: bool


class DeployFailedError(NodeError):
    """A deploy failed and was rolled back; `cause` is why, `rollback` what became of the nodes."""

    def __init__(self, cause: SparklockError, rollback: Rollback) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.rollback = rollback

    @property
    def messages(self) -> tuple[Message, ...]:
        """The cause, then what was restored, then what could not be."""
        failed = tuple(part for error in self.rollback.failures for part in error.messages)
        return (*self.cause.messages, self._restored(), *failed)

    def _restored(self) -> Message:
        rollback = self.rollback
        remedy = "repair the cause above, then: inv deploy"
        if rollback.failures:
            what = "rolling back did not succeed everywhere; see below"
            remedy = "bring the node back, then inv deploy: it removes what is left"
        elif not rollback.serving:
            what = "rolled back: nothing of this deploy runs, and nothing ran before it"
        elif rollback.started_again:
            what = "rolled back: the old pair was started again and answers once it has loaded"
        else:
            what = "rolled back: the old pair was never stopped"
        return Message(place="deploy", what=what, detail="\n".join(rollback.done), remedy=remedy)


class CleanupFailedError(NodeError):
    """The new pair serves, and what was there before could not all be removed."""

    def __init__(self, cause: SparklockError) -> None:
        super().__init__(str(cause))
        self.cause = cause

    @property
    def messages(self) -> tuple[Message, ...]:
        """What holds, then the cause."""
        what = "the new pair serves; cleaning up after the old one did not end"
        note = Message(place="deploy", what=what, remedy="inv deploy finishes it")
        return (note, *self.cause.messages)
