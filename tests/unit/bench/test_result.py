from __future__ import annotations

import json
from typing import Literal

import pytest

from tests.bench.result import Limit, Samples
from tests.unit.bench.results import result, samples


@pytest.mark.parametrize(
    ("values", "median"),
    [
        pytest.param((3.0,), 3.0, id="one"),
        pytest.param((9.0, 1.0, 2.0), 2.0, id="odd, not sorted"),
        pytest.param((1.0, 2.0, 4.0, 50.0), 3.0, id="even: between the two in the middle"),
    ],
)
def test_a_median_is_the_middle_whatever_the_outliers(
    values: tuple[float, ...], median: float
) -> None:
    assert samples(*values).median == median


def test_a_ratio_is_of_medians_ours_over_the_yardstick() -> None:
    assert result(samples(2.0, 3.0, 90.0), samples(6.0, 1.0, 7.0)).ratio == 0.5


@pytest.mark.parametrize("theirs", [None, samples(0.0, 0.0)])
def test_without_a_yardstick_or_with_one_of_nothing_there_is_no_ratio(
    theirs: Samples | None,
) -> None:
    assert result(samples(1.0), theirs).ratio is None


@pytest.mark.parametrize(
    ("ours", "limit", "met"),
    [
        pytest.param(6.0, Limit("ratio", 2), False, id="ratio above"),
        pytest.param(4.0, Limit("ratio", 2), True, id="ratio at the limit"),
        pytest.param(3.0, Limit("median", 3), True, id="median at the limit"),
        pytest.param(3.1, Limit("median", 3), False, id="median above"),
        pytest.param(3.5, Limit("difference", 1.5), True, id="difference at the limit"),
        pytest.param(4.0, Limit("difference", 1.5), False, id="difference above"),
        pytest.param(99.0, None, None, id="nothing claimed"),
    ],
)
def test_a_claim_is_met_up_to_its_limit(ours: float, limit: Limit | None, met: object) -> None:
    assert result(samples(ours), samples(2.0), limit=limit).met is met


@pytest.mark.parametrize("of", ["ratio", "difference"])
def test_a_claim_beside_a_yardstick_that_does_not_exist_is_not_met(
    of: Literal["ratio", "difference"],
) -> None:
    assert result(samples(1.0), None, limit=Limit(of, 2)).met is False


def test_the_text_has_both_medians_their_spread_the_ratio_and_the_verdict() -> None:
    text = result(
        samples(0.5, 0.61, 2.25), samples(1.22, 1.22), limit=Limit("ratio", 0.1), note="mind this"
    ).text()
    assert text.splitlines() == [
        "some: a thing",
        "  ours       0.61 s (0.5 to 2.25)",
        "  yardstick  1.22 s  another",
        "  ratio      0.5",
        "  claim      ratio at most 0.1: NOT MET (3 rounds)",
        "  note       mind this",
    ]


def test_large_numbers_have_no_exponent() -> None:
    assert "43843 bytes" in result(samples(43843.0), unit="bytes").text()


def test_a_headline_says_what_matters_in_one_line() -> None:
    found = result(samples(1.0), samples(2.0), limit=Limit("median", 3)).headline()
    assert found == "some: 1 s, ratio 0.5; median at most 3 s: met"


def test_json_has_the_values_of_every_round() -> None:
    document = result(samples(1.0, 2.0), samples(4.0, 4.0), limit=Limit("ratio", 1)).as_json()
    assert json.loads(json.dumps(document)) == {
        "name": "some",
        "what": "a thing",
        "unit": "s",
        "ours": {"median": "1.5", "values": ["1", "2"]},
        "yardstick": {"what": "another", "median": "4", "values": ["4", "4"]},
        "ratio": "0.375",
        "limit": {"of": "ratio", "at_most": "1"},
        "met": True,
        "repetitions": 2,
        "note": "",
    }
