from __future__ import annotations

import json

import pytest

from builder.digest import digest_bytes
from builder.errors import Message
from verify.errors import UnprovenError
from verify.report import (
    Check,
    CheckResult,
    Outcome,
    Report,
    result_from_json,
    result_of,
    result_of_missing,
)
from verify.verdict import Finding, Verdict, not_shown, same, together

CHECK = Check("fabric.rate[spark-a-hca]", "spark-a hca", "node spark-a, rank 0, hca", "It is fast.")
FINDING = Finding("too slow", "200 Gb/s", "100 Gb/s", "check the cable")
LOCK = digest_bytes(b"lock")


def report(*results: CheckResult, only: str | None = None) -> Report:
    return Report("lab", LOCK, ("spark-a", "spark-b"), results, only)


PASSED = result_of(CHECK, Verdict(("rate: 200 Gb/s",)))
FAILED = result_of(CHECK, Verdict(("rate: 100 Gb/s",), (FINDING,)))
NOT_APPLICABLE = result_of(CHECK, not_shown("no NCCL line"))
BROKEN = result_of(CHECK, None, (Message("node spark-a", "broke", "report it"),))


def test_a_verdict_becomes_the_outcome_it_means() -> None:
    assert PASSED.outcome is Outcome.PASSED
    assert FAILED.outcome is Outcome.FAILED
    assert NOT_APPLICABLE.outcome is Outcome.NOT_APPLICABLE
    assert BROKEN.outcome is Outcome.ERROR


def test_a_failure_names_place_check_expected_found_and_remedy() -> None:
    assert FAILED.messages == (
        Message(
            place="node spark-a, rank 0, hca",
            what="fabric.rate[spark-a-hca]: too slow",
            expected="200 Gb/s",
            found="100 Gb/s",
            remedy="check the cable",
        ),
    )


@pytest.mark.parametrize("verdict", [None, Verdict()])
def test_a_check_that_judged_or_looked_at_nothing_is_an_error(verdict: Verdict | None) -> None:
    found = result_of(CHECK, verdict)
    assert found.outcome is Outcome.ERROR
    assert found.messages


def test_a_check_that_broke_after_its_verdict_is_an_error_all_the_same() -> None:
    problem = Message("node spark-a", "teardown broke", "report it")
    assert result_of(CHECK, Verdict(("fine",)), (problem,)).outcome is Outcome.ERROR


def test_a_check_without_a_result_is_an_error() -> None:
    assert result_of_missing(CHECK).outcome is Outcome.ERROR


def test_findings_outweigh_what_is_not_shown() -> None:
    both = Verdict(("e",), (FINDING,), not_shown="nothing")
    assert result_of(CHECK, both).outcome is Outcome.FAILED


@pytest.mark.parametrize("result", [PASSED, FAILED, NOT_APPLICABLE, BROKEN])
def test_a_result_survives_json(result: CheckResult) -> None:
    assert result_from_json(CHECK, json.loads(json.dumps(result.as_json()))) == result


def test_a_report_passes_only_if_nothing_failed_and_something_passed() -> None:
    assert report(PASSED, NOT_APPLICABLE).passed
    assert not report(PASSED, FAILED).passed
    assert not report(PASSED, BROKEN).passed
    assert not report(NOT_APPLICABLE).passed
    assert not report().passed


@pytest.mark.parametrize("results", [(PASSED, FAILED), (NOT_APPLICABLE,), ()])
def test_a_report_that_does_not_pass_is_exit_code_6_with_a_remedy(
    results: tuple[CheckResult, ...],
) -> None:
    with pytest.raises(UnprovenError, match="remedy") as caught:
        report(*results).require_passed()
    assert caught.value.exit_code == 6


def test_a_report_that_passes_raises_nothing() -> None:
    report(PASSED).require_passed()


def test_checks_without_ground_for_one_reason_tell_it_once() -> None:
    assert len(report(PASSED, BROKEN, BROKEN).failures) == 1


def test_the_last_line_counts_and_names_the_lock() -> None:
    last = report(PASSED, PASSED, FAILED, NOT_APPLICABLE).text().splitlines()[-1]
    assert last == (f"lab on spark-a, spark-b: 2 passed, 1 failed, 1 not-applicable; lock {LOCK}")


def test_a_partial_report_says_so() -> None:
    assert "(only fabric)" in report(PASSED, only="fabric").text()


def of(subject: str, verdict: Verdict) -> CheckResult:
    return result_of(Check(f"fabric.rate[{subject}]", subject, "place", "It is fast."), verdict)


def test_a_claim_that_ended_alike_for_all_is_one_line() -> None:
    fast = Verdict(("200",))
    assert report(of("a", fast), of("b", fast)).text().splitlines()[:2] == [
        "fabric:",
        "  ok      It is fast. [all 2]",
    ]


def test_subjects_are_named_where_they_differ() -> None:
    fast, slow = Verdict(("200",)), Verdict(("100",), (FINDING,))
    lines = report(of("a", fast), of("b", slow), of("c", fast)).text().splitlines()
    assert lines[1:3] == ["  ok      It is fast. [a, c]", "  FAILED  It is fast. [b]"]


def test_text_says_why_a_claim_does_not_apply() -> None:
    lines = report(of("a", not_shown("no NCCL line"))).text().splitlines()
    assert lines[1:3] == ["  n/a     It is fast. [a]", "          no NCCL line"]


def test_colour_is_added_only_on_demand() -> None:
    assert "\x1b" not in report(PASSED).text()
    assert "\x1b[32mok" in report(PASSED).text(colour=True)


def test_json_is_complete_and_the_same_for_equal_facts() -> None:
    data = json.dumps(report(PASSED, FAILED).as_json())
    assert data == json.dumps(report(PASSED, FAILED).as_json())
    value = json.loads(data)
    assert value["lock_digest"] == LOCK
    assert value["passed"] is False
    assert value["counts"] == {"passed": 1, "failed": 1, "error": 0, "not-applicable": 0}
    assert [check["outcome"] for check in value["checks"]] == ["passed", "failed"]


def test_parts_of_a_claim_must_all_hold() -> None:
    good = same("a", expected=1, found=1, remedy="")
    bad = same("b", expected=1, found=2, remedy="fix b")
    verdict = together([good, bad])
    assert verdict.evidence == ("a: 1", "b: 2")
    assert [finding.remedy for finding in verdict.findings] == ["fix b"]
