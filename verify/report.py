"""The report of a verification: what was proved of which lock, as text and as JSON.

It has no clock and no durations, so equal facts give equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from builder.errors import Message
from verify.errors import UnprovenError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from builder.digest import Digest, JsonValue
    from verify.verdict import Verdict


class Outcome(Enum):
    """How a check ended; only PASSED proves its claim."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """The claim could not be judged: no ground to stand on, or a fault of the check."""
    NOT_APPLICABLE = "not-applicable"
    """This run has nothing to judge the claim by; `reason` says what is missing."""


_MARKS: Final = {
    Outcome.PASSED: ("ok", "32"),
    Outcome.FAILED: ("FAILED", "31"),
    Outcome.ERROR: ("ERROR", "31"),
    Outcome.NOT_APPLICABLE: ("n/a", "33"),
}
"""The word of each outcome, and its SGR colour."""

_WORD_WIDTH: Final = 6

GROUPS: Final = ("image", "container", "model", "fabric", "collective", "serving")
"""The groups of checks in the order to run and read them: what others stand on comes first."""


USER: Final = "user"
"""The group of all checks that stand beside the manifest, and are not sparklock's."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one subject, before it ran.

    `id` is `fabric.port_is_active[spark-a-rocep1s0f0]`; `subject` a node's name or `cluster`;
    `place` the subject as an error names it; `proves` the first line of the check's docstring.
    """

    id: str
    subject: str
    place: str
    proves: str

    @property
    def group(self) -> str:
        """The first part of the id, one of GROUPS or USER."""
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How one check ended; `reason` says why it is not applicable."""

    check: Check
    outcome: Outcome
    evidence: tuple[str, ...] = ()
    reason: str = ""
    messages: tuple[Message, ...] = ()

    @property
    def group(self) -> str:
        """The first part of the id, one of GROUPS."""
        return self.check.group

    def as_json(self) -> dict[str, JsonValue]:
        """The result as a JSON object."""
        return {
            "id": self.check.id,
            "subject": self.check.subject,
            "proves": self.check.proves,
            "outcome": self.outcome.value,
            "evidence": list(self.evidence),
            "reason": self.reason,
            "messages": [message.as_json() for message in self.messages],
        }


def result_of(
    check: Check, verdict: Verdict | None, problems: tuple[Message, ...] = ()
) -> CheckResult:
    """The result of a check that ran.

    Fails closed: a check that broke, judged nothing, or looked at nothing is an error.
    """
    if verdict is None and not problems:
        problems = (_broken(check, "the check ended without a verdict"),)
    if verdict is None or problems:
        return CheckResult(check, Outcome.ERROR, messages=problems)
    if verdict.findings:
        messages = tuple(
            Message(
                place=check.place,
                what=f"{check.id}: {finding.what}",
                expected=finding.expected,
                found=finding.found,
                remedy=finding.remedy,
            )
            for finding in verdict.findings
        )
        return CheckResult(check, Outcome.FAILED, verdict.evidence, messages=messages)
    if verdict.not_shown:
        return CheckResult(check, Outcome.NOT_APPLICABLE, verdict.evidence, verdict.not_shown)
    if not verdict.holds:
        return result_of(check, None, (_broken(check, "the check looked at nothing"),))
    return CheckResult(check, Outcome.PASSED, verdict.evidence)


def result_of_missing(check: Check) -> CheckResult:
    """The result of a check that was collected and never told how it ended."""
    return result_of(check, None, (_broken(check, "the check did not run to its end"),))


def _broken(check: Check, what: str) -> Message:
    return Message(
        place=check.place,
        what=f"{check.id}: {what}",
        expected="a verdict with evidence",
        remedy=fault_of(check),
    )


def fault_of(check: Check) -> str:
    """What to do about a check that is itself broken."""
    if check.group == USER:
        return "correct your own check: it lies in checks/, beside the manifest"
    return "this is a fault of sparklock; please report it"


def result_from_json(check: Check, value: Mapping[str, Any]) -> CheckResult:
    """The result that `as_json` gave for a check."""
    return CheckResult(
        check=check,
        outcome=Outcome(value["outcome"]),
        evidence=tuple(str(line) for line in value["evidence"]),
        reason=str(value["reason"]),
        messages=tuple(Message(**message) for message in value["messages"]),
    )


@dataclass(frozen=True, slots=True)
class Report:
    """What was proved of the pair that runs a lock.

    `lock_digest` is over lockfile.json's bytes. `only` is the selection asked for; with one, the
    report covers a part and says so.
    """

    cluster: str
    lock_digest: Digest
    nodes: tuple[str, ...]
    checks: tuple[CheckResult, ...]
    only: str | None = None

    def count(self, outcome: Outcome) -> int:
        """How many checks ended so."""
        return sum(check.outcome is outcome for check in self.checks)

    @property
    def passed(self) -> bool:
        """Whether no check failed or erred, and at least one passed."""
        bad = self.count(Outcome.FAILED) + self.count(Outcome.ERROR)
        return bad == 0 and self.count(Outcome.PASSED) > 0

    @property
    def failures(self) -> tuple[Message, ...]:
        """What keeps the report from passing, each message once."""
        messages = [message for check in self.checks for message in check.messages]
        if not messages and not self.passed:
            messages = [_nothing_proved(self.cluster)]
        return tuple(dict.fromkeys(messages))

    def require_passed(self) -> None:
        """Nothing; UnprovenError (exit code 6) with a message per failed claim if not `passed`."""
        if not self.passed:
            raise UnprovenError(self.lock_digest, self.failures)

    def text(self, *, colour: bool = False) -> str:
        """The report for a terminal: a line per claim, and last the counts and the lock's digest.

        A claim that ended alike for all its subjects is one line with their number; otherwise the
        subjects of each outcome are named. What failed is told in full by `failures`.
        """
        lines = []
        for group in dict.fromkeys(item.group for item in self.checks):
            lines.append(f"{group}:")
            of_group = [item for item in self.checks if item.group == group]
            for proves in dict.fromkeys(item.check.proves for item in of_group):
                same_claim = [item for item in of_group if item.check.proves == proves]
                lines.extend(_claim_lines(same_claim, colour=colour))
        return "\n".join([*lines, "", self._summary()])

    def _summary(self) -> str:
        counts = ", ".join(
            f"{self.count(outcome)} {outcome.value}" for outcome in Outcome if self.count(outcome)
        )
        part = f" (only {self.only})" if self.only else ""
        return f"{self.cluster} on {', '.join(self.nodes)}{part}: {counts}; lock {self.lock_digest}"

    def as_json(self) -> JsonValue:
        """The report as a JSON object."""
        return {
            "cluster": self.cluster,
            "lock_digest": self.lock_digest,
            "nodes": list(self.nodes),
            "only": self.only,
            "passed": self.passed,
            "counts": {outcome.value: self.count(outcome) for outcome in Outcome},
            "checks": [check.as_json() for check in self.checks],
        }


def _claim_lines(results: Sequence[CheckResult], *, colour: bool) -> Iterator[str]:
    """One line per outcome and reason of a claim; `results` are those of all its subjects."""
    for outcome, reason in dict.fromkeys((item.outcome, item.reason) for item in results):
        alike = [item for item in results if (item.outcome, item.reason) == (outcome, reason)]
        word, code = _MARKS[outcome]
        mark = word.ljust(_WORD_WIDTH)
        if colour:
            mark = f"\x1b[{code}m{mark}\x1b[0m"
        subjects = ", ".join(item.check.subject for item in alike)
        whose = f"all {len(alike)}" if len(alike) == len(results) > 1 else subjects
        yield f"  {mark}  {results[0].check.proves} [{whose}]"
        if reason:
            yield f"  {'':{_WORD_WIDTH}}  {reason}"


def _nothing_proved(cluster: str) -> Message:
    return Message(
        place=f"cluster {cluster}",
        what="no selected check applies to it, so nothing is proved",
        expected="at least one check that passes",
        remedy="select more checks",
    )
