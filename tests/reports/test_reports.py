"""Every publicly reported fault that a lab can show is caught, by the earliest stage that can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reports.caught import CAUGHT, NOTHING, first_to_catch
from tests.reports.rows import ROWS, Row

if TYPE_CHECKING:
    from tests.integration.verify.conftest import Pair

pytestmark = pytest.mark.lab


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row.fault, marks=() if row.short else pytest.mark.slow) for row in ROWS],
)
def test_a_reported_fault_is_caught_by_its_stage(pair: Pair, row: Row) -> None:
    with row.inject(pair):
        caught = first_to_catch(row.fault, pair)
    CAUGHT.append(caught)
    assert caught.stage == row.stage, caught.said
    missing = [word for word in row.words if word not in caught.said]
    assert not missing, caught.said


def test_a_healthy_pair_raises_nothing(pair: Pair) -> None:
    assert first_to_catch("none", pair).stage == NOTHING


@pytest.mark.long
def test_fifty_healthy_runs_raise_no_false_alarm(pair: Pair) -> None:
    alarms = [found for _ in range(50) if (found := first_to_catch("none", pair)).stage != NOTHING]
    assert alarms == []
