"""What a judgement says: the evidence looked at, and every way in which the claim is false."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from verify.processes import Inside


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which a claim is false."""

    what: str
    expected: str
    found: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of judging one claim.

    The claim holds if there is evidence and no finding. `not_shown` says why this run cannot show
    the claim; it is then reported as not applicable, never as passed. A verdict without evidence
    and without any of the two proves nothing, and counts as an error of the check.
    """

    evidence: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_shown: str = ""

    @property
    def holds(self) -> bool:
        """Whether the claim is proved."""
        return bool(self.evidence) and not self.findings and not self.not_shown


def not_shown(reason: str, *evidence: str) -> Verdict:
    """The verdict on a claim about which this run says nothing."""
    return Verdict(evidence=evidence, not_shown=reason)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict of several parts of a claim, all of which have to hold."""
    parts = tuple(verdicts)
    return Verdict(
        evidence=tuple(line for part in parts for line in part.evidence),
        findings=tuple(finding for part in parts for finding in part.findings),
    )


def same(name: str, *, expected: object, found: object, remedy: str) -> Verdict:
    """The verdict on two values that must be equal; `name` says of what they are."""
    finding = Finding(f"{name} is not as expected", str(expected), str(found) or "nothing", remedy)
    return Verdict(
        evidence=(f"{name}: {found}",),
        findings=() if found == expected else (finding,),
    )


def nothing_serves(inside: Inside, *, renew: str) -> Verdict:
    """A finding: no process is the server, told by those that run; `renew` ends its remedy."""
    seen = [" ".join(process.args)[:80] for process in inside.processes if process.args]
    finding = Finding(
        "no process of the container is `vllm serve`",
        "one, started by the node script or the entrypoint",
        "; ".join(seen) or "no process",
        f"inv logs; then {renew}",
    )
    return Verdict(evidence=tuple(seen), findings=(finding,))
