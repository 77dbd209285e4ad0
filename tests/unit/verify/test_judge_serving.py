from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.verify import samples
from verify.errors import ApiError
from verify.fingerprint import Fingerprint, parse_fingerprint
from verify.judge import serving as judge

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD, OTHER = samples.expected().nodes
ANSWER: dict[str, Any] = {
    "choices": [{"index": 0, "text": "4"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
    "system_fingerprint": "vllm-0.17.1-tp2-25b7cf36",
}


def with_titles(titles: Sequence[str]) -> Any:  # noqa: ANN401 - an Inside, shortened
    processes = [samples.process(pid, title) for pid, title in enumerate(titles)]
    return replace(samples.inside(), processes=tuple(processes))


def test_each_rank_on_its_own_node_is_accepted() -> None:
    assert judge.worker_titles(HEAD, samples.inside(0)).holds
    assert judge.worker_titles(OTHER, samples.inside(1)).holds


def test_a_lone_ranks_worker_is_part_of_the_engine_core_or_stands_beside_it() -> None:
    lone = replace(HEAD, titles=("EngineCore",))
    assert judge.worker_titles(lone, with_titles(["VLLM::EngineCore"])).holds
    assert judge.worker_titles(lone, with_titles(["VLLM::EngineCore", "VLLM::Worker"])).holds
    assert judge.worker_titles(lone, with_titles(["VLLM::EngineCore", "VLLM::Worker_TP0"])).findings
    assert judge.worker_titles(lone, with_titles(["VLLM::Worker"])).findings


@pytest.mark.parametrize(
    "titles",
    [
        [],
        ["VLLM::EngineCore"],
        ["VLLM::EngineCore", "VLLM::Worker_TP1"],
        ["VLLM::EngineCore", "VLLM::Worker_TP0", "VLLM::Worker_TP1"],
        ["VLLM::Worker_TP0"],
        ["VLLM::EngineCore", "VLLM::Worker"],
    ],
)
def test_a_head_with_too_few_too_many_or_foreign_workers_is_found(titles: list[str]) -> None:
    assert judge.worker_titles(HEAD, with_titles(titles)).findings


def test_both_ranks_on_the_head_are_found_on_the_other_node_too() -> None:
    assert judge.worker_titles(OTHER, with_titles([])).findings
    assert judge.worker_titles(OTHER, with_titles(["VLLM::Worker_TP0"])).findings


def test_the_version_must_be_the_locked_one() -> None:
    assert judge.version("0.17.1", {"version": "0.17.1"}).holds
    assert judge.version("0.17.1", {"version": "0.17.1rc1"}).findings
    assert judge.version("0.17.1", {}).findings


@pytest.mark.parametrize("answer", [{}, {"data": None}, {"data": []}, {"data": [{"id": "b"}]}])
def test_a_server_without_the_model_is_found(answer: dict[str, Any]) -> None:
    assert judge.served_model("a", {"data": [{"id": "b"}, {"id": "a"}]}).holds
    assert judge.served_model("a", answer).findings


def test_a_completion_with_a_token_is_accepted() -> None:
    assert judge.completion([ANSWER, ANSWER], None).holds


@pytest.mark.parametrize(
    "changes",
    [
        {"choices": []},
        {"choices": None},
        {"usage": {"completion_tokens": 0}},
        {"usage": None},
        {"usage": {}},
    ],
)
def test_a_completion_without_a_token_is_found(changes: dict[str, Any]) -> None:
    assert judge.completion([ANSWER, {**ANSWER, **changes}], None).findings


@pytest.mark.parametrize("answers", [[], [ANSWER]])
def test_no_answer_is_a_false_claim_with_its_reason(answers: list[dict[str, Any]]) -> None:
    failure = ApiError("POST /v1/completions", "TimeoutError: the deadline is over", 60)
    (finding,) = judge.completion(answers, failure).findings
    assert "deadline" in finding.found


def test_one_prompt_must_give_one_text() -> None:
    assert judge.same_answer(ANSWER, ANSWER).holds
    other = {**ANSWER, "choices": [{"index": 0, "text": "5"}]}
    (finding,) = judge.same_answer(ANSWER, other).findings
    assert (finding.expected, finding.found) == ("['4']", "['5']")
    assert judge.same_answer(ANSWER, {**ANSWER, "choices": []}).findings


def test_every_one_of_the_requests_at_once_must_get_tokens() -> None:
    assert judge.all_answered([ANSWER, ANSWER]).holds
    (finding,) = judge.all_answered([ANSWER, {**ANSWER, "usage": None}]).findings
    assert finding.found == "1, 0"


def test_a_fingerprint_must_name_version_and_width() -> None:
    assert judge.fingerprint(Fingerprint("0.17.1", 2), ANSWER).holds
    for other in (("0.17.1", 1), ("0.17.1", 4), ("0.17", 2), ("0.17.1", 2, 2)):
        assert judge.fingerprint(Fingerprint(*other), ANSWER).findings


def test_a_fingerprint_of_another_form_is_no_proof() -> None:
    other = {**ANSWER, "system_fingerprint": "fp_69829325d0"}
    assert judge.fingerprint(Fingerprint("0.17.1", 2), other).findings
    hashed = {**ANSWER, "system_fingerprint": "vllm-0.17.1-25b7cf36"}
    assert judge.fingerprint(Fingerprint("0.17.1", 2), hashed, "hash").not_shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("vllm-0.32.0-tp2-25b7cf36", Fingerprint("0.32.0", 2)),
        (
            "vllm-0.17.1rc1.dev3+g6595a2380-tp2-25b7cf36",
            Fingerprint("0.17.1rc1.dev3+g6595a2380", 2),
        ),
        ("vllm-0.33.0-tp4-pp2-dp2-ep-25b7cf36", Fingerprint("0.33.0", 4, 2)),
        ("vllm-0.33.0-pp2-nohash", Fingerprint("0.33.0", 1, 2)),
        ("vllm-0.33.0-25b7cf36", Fingerprint("0.33.0", 1)),
        ("vllm-0.33.0", None),
        ("vllm-0.33.0-tp2", None),
        ("b10717-a32af33de", None),
    ],
)
def test_the_forms_of_a_fingerprint(text: str, found: Fingerprint | None) -> None:
    assert parse_fingerprint(text) == found


@pytest.mark.parametrize("value", [None, ""])
def test_a_server_without_fingerprint_shows_none(value: str | None) -> None:
    answer = {**ANSWER, "system_fingerprint": value}
    verdict = judge.fingerprint(Fingerprint("0.17.1", 2), answer)
    assert verdict.not_shown
    assert not verdict.holds


@pytest.mark.parametrize(
    "line",
    [
        "ERROR 11-30 08:24:27 [core.py:123] failed",
        "(Worker_TP1 pid=77) ERROR 11-30 08:24:27 assertion",
        "(EngineCore pid=5) (Worker pid=6) CRITICAL out",
        "(Worker_TP1 pid=77) Traceback (most recent call last):",
    ],
)
def test_an_error_in_a_rank_s_log_is_found(line: str) -> None:
    (finding,) = judge.quiet_log(["INFO fine", line]).findings
    assert finding.found == line


def test_a_log_without_errors_is_accepted_also_when_nothing_was_logged() -> None:
    assert judge.quiet_log([]).holds
    assert judge.quiet_log(["INFO 200 OK", "WARNING no ERROR yet"]).holds


def test_a_file_with_other_bytes_or_none_is_found_and_named() -> None:
    expected = {"/srv/a": "1" * 64, "/srv/b": "2" * 64}
    assert judge.model_files(expected, dict(expected)).holds
    changed = judge.model_files(expected, {**expected, "/srv/b": "3" * 64})
    assert [f.what for f in changed.findings] == ["SHA-256 of /srv/b is not as expected"]
    (gone,) = judge.model_files(expected, {"/srv/a": "1" * 64}).findings
    assert gone.found == "no readable file"


def test_a_lock_without_model_files_has_none_to_show() -> None:
    assert judge.model_files({}, {"/srv/a": "1" * 64}).not_shown
