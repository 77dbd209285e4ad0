"""What can go wrong with a deploy as a whole, one class each; exit code 5.

What can go wrong with one node stands in deploy/node_errors.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from builder.errors import Message, NodeError, SparklockError
from deploy.showing import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.actions import Plan, Restore
    from deploy.diagnosis import Verdict
    from deploy.scene import RankScene, Scene
    from deploy.state import Completion

SHOWN_LINES: Final = 20
"""How much of a rank's log a failure shows."""


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
    """How a rank was found when a start failed; `exit_code` is None while it runs.

    `log` are its last lines, `shows` what else its node tells of it, a fact a line. `fault` is why
    nothing is known of it; then all else is empty.
    """

    node: str
    rank: int
    container: str
    exit_code: int | None
    out_of_memory: bool
    log: str
    shows: tuple[str, ...] = ()
    fault: str = ""

    @classmethod
    def of(cls, scene: RankScene) -> RankEnd:
        """A rank as its node shows it."""
        state = scene.state
        return cls(
            node=scene.node,
            rank=scene.rank,
            container=scene.container,
            exit_code=None if state is None or state.running else state.exit_code,
            out_of_memory=state is not None and state.out_of_memory,
            log="\n".join(scene.log[-SHOWN_LINES:]),
            shows=tuple(shown(scene)),
            fault=scene.fault if state is None else "",
        )

    @property
    def place(self) -> str:
        """The node and rank, as a message names them."""
        return f"node {self.node}, rank {self.rank}"

    def message(self) -> Message:
        """The rank's end, its last lines, and what its node shows of it."""
        if self.fault:
            remedy = "see what became of it: inv status"
            return Message(place=self.place, what=self.fault, remedy=remedy)
        if self.exit_code is None:
            what, found = "it runs; its last lines", ""
            remedy = "look here for what it waited for"
        else:
            what, found = "it ended; its last lines", f"exit code {self.exit_code}"
            remedy = "see the diagnosis above"
        log = self.log or "(the log is empty)"
        return Message(
            place=self.place,
            what=what,
            found=f"{found}, out of memory" if self.out_of_memory else found,
            detail="\n".join((log, *(f"-- {fact}" for fact in self.shows))),
            remedy=remedy,
        )


class StartFailedError(NodeError):
    """A rank ended before the pair answered, or cannot be asked any more.

    `ends` has the rank first that the verdict names, then others that ended; `faults` are the
    failures of nodes that could not be asked.
    """

    def __init__(
        self, scene: Scene, verdict: Verdict, faults: Sequence[SparklockError] = ()
    ) -> None:
        super().__init__(verdict.what)
        self.verdict = verdict
        self.ends = _ends(scene, verdict)
        self.faults = tuple(faults)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The diagnosis, what nodes failed with, then every rank."""
        told = (message for fault in self.faults for message in fault.messages)
        return (
            self.verdict.message("a rank ended before the pair answered"),
            *told,
            *(end.message() for end in self.ends),
        )


class NoCompletionError(NodeError):
    """All ranks run and no completion came: a stage took too long, or the server refused."""

    def __init__(
        self, what: str, scene: Scene, verdict: Verdict, faults: Sequence[SparklockError] = ()
    ) -> None:
        super().__init__(what)
        self.what = what
        self.stage = scene.stage
        self.said = scene.answer.text
        self.verdict = verdict
        self.ends = _ends(scene, verdict)
        self.faults = tuple(faults)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The diagnosis, what was said to a request, what nodes failed with, then every rank."""
        asked = Message(
            place="POST /v1/completions",
            what="the server's last answer",
            detail=self.said,
            remedy="[serve] of cluster.toml has the time limits, if it was only slow",
        )
        return (
            self.verdict.message(self.what),
            *((asked,) if self.said else ()),
            *(message for fault in self.faults for message in fault.messages),
            *(end.message() for end in self.ends),
        )


class RankLogError(NodeError):
    """Completions came, and meanwhile a rank logged failures: `lines`, from the first on."""

    def __init__(self, node: str, rank: int, lines: Sequence[str]) -> None:
        super().__init__(f"{node}, rank {rank}")
        self.node = node
        self.rank = rank
        self.lines = tuple(lines)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message, with the lines."""
        more = len(self.lines) - SHOWN_LINES
        lines = (*self.lines[:SHOWN_LINES], *((f"(and {more} more)",) if more > 0 else ()))
        return (
            Message(
                place=f"node {self.node}, rank {self.rank}",
                what="a completion came, but this rank logged failures while it was computed",
                detail="\n".join(lines),
                remedy="the answers may be wrong: repair what the lines tell, then try again",
            ),
        )


class RankChangedError(NodeError):
    """A container is not the one that was created or started; `what` names the difference."""

    def __init__(self, node: str, rank: int, what: str, expected: str, found: str) -> None:
        super().__init__(f"{node}, rank {rank}")
        self.node = node
        self.rank = rank
        self.what = what
        self.expected = expected
        self.found = found

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        return (
            Message(
                place=f"node {self.node}, rank {self.rank}",
                what=f"somebody else changed the rank while it was confirmed: {self.what}",
                expected=self.expected,
                found=self.found,
                remedy="find out who works on this node beside sparklock, then try again",
            ),
        )


def _ends(scene: Scene, verdict: Verdict) -> tuple[RankEnd, ...]:
    """Every rank, with the ones that tell most first."""
    order = sorted(scene.ranks, key=lambda item: (item.rank != verdict.rank, item.alive, item.rank))
    return tuple(RankEnd.of(item) for item in order)


class SilentPairError(NodeError):
    """Everything runs as locked, and a request for a completion is not answered."""

    def __init__(
        self, node: str, timeout_s: float, answer: Completion, verdict: Verdict, again: str
    ) -> None:
        super().__init__(node)
        self.again = again
        self.node = node
        self.timeout_s = timeout_s
        self.answer = answer
        self.verdict = verdict

    @property
    def messages(self) -> tuple[Message, ...]:
        """What does not hold, then the diagnosis."""
        return (
            Message(
                place=f"node {self.node}, POST /v1/completions",
                what="the pair runs as it should, but it does not serve; nothing was changed",
                expected=f"a completion within {self.timeout_s:g} s",
                found=self.answer.outcome.value,
                detail=self.answer.text,
                remedy=f"look at `inv logs`; to start the pair anew: inv stop, then {self.again}",
            ),
            self.verdict.message("why it does not answer"),
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
        return (Message(place="rollback", what=what, remedy=f"repair {names}, then try again"),)


class Outcome(Enum):
    """What rolling back came to; the old pair is the generation that was to serve before."""

    NOTHING_BEFORE = "nothing of this deploy runs, and nothing ran before it"
    ANSWERS = "the old pair serves, and has answered a completion"
    SILENT = "the old pair was started and does not answer"
    UNASKED = "the old pair was started; that it answers was not waited for"
    UNTOUCHED = "the old pair was never stopped; whether it answers could not be asked"
    DOWN = "the old pair is stopped, since not all of it could be started"
    IMPOSSIBLE = "there is no pair to bring back"
    LEFT = "nothing was rolled back: the failed ranks are left for inspection"


@dataclass(frozen=True, slots=True)
class Rollback:
    """What was undone after a failure, in words, and what could not be: `undone`, with `failures`.

    `old` is what had to serve again, `started_again` says that it had been stopped, and `silent`
    why it does not answer.
    """

    outcome: Outcome
    old: Restore
    done: tuple[str, ...]
    failures: tuple[SparklockError, ...]
    started_again: bool
    silent: SparklockError | None = None
    undone: tuple[str, ...] = ()


class DeployFailedError(NodeError):
    """A deploy or rollback failed and was undone; `cause` is why, `rollback` what became of it."""

    def __init__(self, cause: SparklockError, rollback: Rollback, plan: Plan) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.rollback = rollback
        self.verb = plan.verb
        self.again = plan.again

    @property
    def messages(self) -> tuple[Message, ...]:
        """The cause, then what was restored, then what could not be."""
        rollback = self.rollback
        silent = () if rollback.silent is None else rollback.silent.messages
        failed = (part for error in rollback.failures for part in error.messages)
        once = (part for part in dict.fromkeys(failed) if part not in self.cause.messages)
        return (*self.cause.messages, self._restored(), *silent, *once)

    def _restored(self) -> Message:
        rollback = self.rollback
        what = f"rolled back: {rollback.outcome.value}"
        if rollback.outcome is Outcome.LEFT:
            what = rollback.outcome.value
        elif rollback.outcome is Outcome.ANSWERS and not rollback.started_again:
            what = "rolled back: the old pair was never stopped, and has answered a completion"
        elif rollback.failures:
            what = f"rolling back did not succeed everywhere: {rollback.outcome.value}"
        return Message(
            place=self.verb,
            what=what,
            found=self._generation(),
            detail="\n".join((*rollback.done, *rollback.undone)),
            remedy=self._remedy(),
        )

    def _generation(self) -> str:
        old = self.rollback.old
        return old.why_not or (f"generation {old.generation}" if old.generation else "")

    def _remedy(self) -> str:
        rollback, number = self.rollback, self.rollback.old.generation
        if rollback.outcome is Outcome.LEFT:
            back = f"; inv rollback {number} has the old pair serve again" if number else ""
            return f"inv logs shows why; the next inv deploy clears the failed ranks{back}"
        if rollback.failures:
            back = f", or inv rollback {number}: both clear" if number else ": it removes"
            return f"bring the node back, then {self.again}{back} what is left"
        if rollback.outcome is Outcome.SILENT:
            return f"repair what is told below, then: inv rollback {number}"
        if rollback.outcome is Outcome.IMPOSSIBLE:
            return (
                f"repair the cause above, then: {self.again}, or inv rollback to another generation"
            )
        return f"repair the cause above, then: {self.again}"


class CleanupFailedError(NodeError):
    """The new pair serves, and what was there before could not all be removed."""

    def __init__(self, cause: SparklockError, plan: Plan) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.verb = plan.verb
        self.again = plan.again

    @property
    def messages(self) -> tuple[Message, ...]:
        """What holds, then the cause."""
        what = "the new pair serves; cleaning up after the old one did not end"
        note = Message(place=self.verb, what=what, remedy=f"{self.again} finishes it")
        return (note, *self.cause.messages)
