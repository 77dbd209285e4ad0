from __future__ import annotations

from tests.bench.report import BenchReport
from tests.bench.result import Limit
from tests.unit.bench.results import MACHINE, result, samples

GOOD = result(samples(1.0), name="good", limit=Limit("median", 3))
BAD = result(samples(4.0), name="bad", limit=Limit("median", 3))
SHOWN = result(samples(4.0), name="shown")


def test_a_report_of_claims_that_hold_is_met_and_counts_claims_alone() -> None:
    report = BenchReport(MACHINE, (GOOD, SHOWN))
    assert report.met
    assert report.text().endswith("\n\n1 of 1 claims met")


def test_a_claim_that_does_not_hold_is_named_at_the_end() -> None:
    report = BenchReport(MACHINE, (GOOD, BAD, SHOWN))
    assert not report.met
    assert report.text().endswith("\n\n1 of 2 claims met; NOT MET: bad")


def test_a_report_has_the_facts_of_the_machine() -> None:
    text = BenchReport(MACHINE, (GOOD,)).text()
    assert "2 cores" in text
    assert "Docker 20.10.0" in text
    assert "load average 0.10 before, 0.90 after" in text


def test_json_has_results_verdict_and_machine() -> None:
    document = BenchReport(MACHINE, (GOOD, BAD)).as_json()
    assert isinstance(document, dict)
    assert document["met"] is False
    assert document["failed"] == ["bad"]
    assert document["machine"]["cores"] == 2
    assert [item["name"] for item in document["results"]] == ["good", "bad"]
