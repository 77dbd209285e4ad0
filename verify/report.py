"""The report of a verification: what was proved of which lock, as text and as canonical JSON.

It has no clock and no durations, so equal facts give equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from builder.digest import canonical_json
from verify.errors import UnprovenError

if TYPE_CHECKING:
    from builder.digest import Digest, JsonValue
    from builder.errors import Message


class Outcome(Enum):
    """How a check ended; only PASSED proves its claim."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """The claim could not be judged: no ground to stand on, or a fault of the check."""
    NOT_APPLICABLE = "not-applicable"
    """This run has nothing to judge the claim by; `reason` says what is missing."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of one subject.

    `id` is `fabric.port_is_active[spark-a-rocep1s0f0]`; `subject` a node's name or `cluster`;
    `proves` the first sentence of the check's docstring; `reason` why it is not applicable.
    """

    id: str
    subject: str
    proves: str
    outcome: Outcome
    evidence: tuple[str, ...] = ()
    reason: str = ""
    messages: tuple[Message, ...] = ()

    @property
    def group(self) -> str:
        """The first part of the id: image, container, fabric, serving or model."""
        return self.id.partition(".")[0]


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

    def require_passed(self) -> None:
        """Nothing; UnprovenError (exit code 6) with a message per failed claim if not `passed`."""
        if not self.passed:
            raise UnprovenError(
                self.lock_digest,
                tuple(message for check in self.checks for message in check.messages),
            )

    def text(self, *, colour: bool = False) -> str:
        """The report for a terminal, grouped, with a last line of counts and the lock's digest."""
        raise NotImplementedError

    def as_json(self) -> JsonValue:
        """The report as a JSON value."""
        raise NotImplementedError

    def json_bytes(self) -> bytes:
        """The report as canonical JSON with a newline at the end."""
        return canonical_json(self.as_json()) + b"\n"
