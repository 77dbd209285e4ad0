from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.errors import NoPlaceForRunError, PartialRecordError
from tests.bench.record import BEGIN, END, PAGE, record, recordable
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


def test_a_run_replaces_the_one_that_the_page_shows(tmp_path: Path) -> None:
    page = tmp_path / PAGE
    page.parent.mkdir()
    page.write_text(f"before\n{BEGIN}old\n{END}after\n")
    report = BenchReport(MACHINE, (GOOD, BAD, SHOWN))
    for _ in range(2):
        record(recordable(tmp_path, only=""), report)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}")
    assert text.endswith(f"{END}after\n")
    assert "old" not in text
    assert "| `good` | 1 s |  |  | met |" in text
    assert "| `bad` | 4 s |  |  | **not met** |" in text
    assert "| `shown` | 4 s |  |  |  |" in text


def test_a_part_of_a_run_is_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(PartialRecordError):
        recordable(tmp_path, only="list")


def test_a_page_without_the_lines_around_a_run_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / PAGE
    page.parent.mkdir()
    page.write_text(f"text\n{BEGIN}")
    with pytest.raises(NoPlaceForRunError, match="end of the run"):
        recordable(tmp_path, only="")


def test_the_page_has_a_place_for_a_run() -> None:
    assert recordable(Path(__file__).resolve().parents[3], only="").name == "speed.md"
