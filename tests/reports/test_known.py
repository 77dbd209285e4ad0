"""The page of known faults is that of the tables, and the tests it names exist."""

from __future__ import annotations

import pytest

from tests.reports.known import ELSEWHERE
from tests.reports.page import PAGE, page
from tests.reports.rows import ROWS


def test_the_page_is_current_or_else_run_its_module() -> None:
    assert PAGE.read_text() == page(), "python -m tests.reports.page writes it"


@pytest.mark.parametrize("test", [row[3] for row in ELSEWHERE])
def test_a_test_that_is_named_exists(test: str) -> None:
    file, _, function = test.partition("::")
    assert f"def {function}(" in (PAGE.parents[1] / file).read_text()


def test_faults_have_names_of_their_own_and_come_stage_by_stage() -> None:
    assert len({row.fault for row in ROWS}) == len(ROWS)
    stages = ["manifest", "build", "preflight", "start", "verify"]
    order = [stages.index(row.stage) for row in ROWS]
    assert order == sorted(order)
