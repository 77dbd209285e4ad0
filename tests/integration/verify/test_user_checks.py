"""A user's own checks join in, and whatever is wrong with them is told as theirs."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import verify
from builder.progress import Silent
from tests.integration.verify.conftest import names
from verify.report import Outcome
from verify.run import run_checks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.verify.conftest import Pair

pytestmark = pytest.mark.lab

PAGE = Path(verify.__file__).parents[1] / "docs" / "verify.md"
EXAMPLE = re.compile(r"```python\n# checks/test_ours.py\n(.*?)```", re.DOTALL)
WRONG = """
import pytest
from verify.judge import image

image.layers = None


def test_is_false(node):
    assert 1 == 2, "one is not two"


def test_breaks(claim_of_nobody):
    pass


def test_looks_elsewhere():
    pytest.skip("not here")
"""


@pytest.fixture
def checks(pair: Pair) -> Iterator[Path]:
    """The folder for checks of the user's, and nothing of it afterwards."""
    folder = pair.manifest_path.parent / "checks"
    folder.mkdir()
    yield folder
    for file in folder.glob("*.py"):
        file.unlink()
    folder.rmdir()


def test_the_example_of_the_docs_passes_as_a_group_of_its_own(
    pair: Pair, checks: Path, tmp_path: Path
) -> None:
    (example,) = re.findall(
        r"```python\n# checks/test_ours.py\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    (checks / "test_ours.py").write_text(example)
    junit = tmp_path / "junit.xml"
    report = run_checks(
        pair.manifest_path, progress=Silent(), only="user or layers", junit_path=junit
    )
    report.require_passed()
    assert {name for name in names(report, Outcome.PASSED) if name.startswith("user.")} == {
        "user.ours.test_clock_is_utc[spark-a]",
        "user.ours.test_clock_is_utc[spark-b]",
        "user.ours.test_one_kernel",
        "user.ours.test_vllm_is_ours",
    }
    suites = [suite.get("name") for suite in ET.parse(junit).getroot()]  # noqa: S314 - pytest's
    assert suites == ["pytest", "user"]


def test_what_is_wrong_with_them_is_told_as_theirs_and_reaches_no_check_of_ours(
    pair: Pair, checks: Path
) -> None:
    (checks / "test_wrong.py").write_text(WRONG)
    (checks / "test_unloadable.py").write_text("import no_such_module\n")
    (checks / "conftest.py").write_text("raise RuntimeError\n")
    report = pair.verify("user or layers")
    assert names(report, Outcome.FAILED) == {
        "user.wrong.test_is_false[spark-a]",
        "user.wrong.test_is_false[spark-b]",
    }
    errors = names(report, Outcome.ERROR)
    assert "user.wrong.test_breaks" in errors
    assert any("unloadable" in name for name in errors)
    assert len(errors) == 2
    assert names(report, Outcome.PASSED) == {"image.layers[spark-a]", "image.layers[spark-b]"}
    told = "\n".join(message.text() for message in report.failures)
    assert "one is not two" in told
    assert "no_such_module" in told
    assert "a fault of sparklock" not in told


def test_a_file_that_ends_the_process_is_an_error_of_theirs(pair: Pair, checks: Path) -> None:
    (checks / "test_ends.py").write_text("import os\nos._exit(0)\n")
    report = pair.verify("user or layers")
    assert len(names(report, Outcome.ERROR)) == 1
    assert not report.passed
