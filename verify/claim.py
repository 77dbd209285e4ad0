"""How a check states its verdict, so that pytest, JUnit and our report hear the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from verify.verdict import Verdict


class Claim:
    """The claim of one running check."""

    def __init__(self, record_property: Callable[[str, object], None]) -> None:
        self._record_property = record_property
        self.verdict: Verdict | None = None

    def settle(self, verdict: Verdict) -> None:
        """Nothing if the claim holds; ends the check as failed or not applicable otherwise."""
        self.verdict = verdict
        for line in verdict.evidence:
            self._record_property("evidence", line)
        if verdict.findings:
            lines = (f"{f.what}: expected {f.expected}, found {f.found}" for f in verdict.findings)
            pytest.fail("\n".join(lines), pytrace=False)
        if verdict.not_shown:
            pytest.skip(verdict.not_shown)
