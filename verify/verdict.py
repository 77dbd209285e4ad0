"""What a judgement says: the evidence looked at, and every way in which the claim is false."""

from __future__ import annotations

from dataclasses import dataclass


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

    No finding means that the claim holds, unless `not_shown` says why this run cannot show it;
    such a claim is reported as not applicable, never as passed.
    """

    evidence: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_shown: str = ""


def not_shown(reason: str, *evidence: str) -> Verdict:
    """The verdict on a claim about which this run says nothing."""
    return Verdict(evidence=evidence, not_shown=reason)
