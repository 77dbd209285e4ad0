"""pytest runs checks that break in every way it knows, and none of them looks passed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import verify
from builder import pipeline
from builder.progress import Silent
from verify.events import Told
from verify.report import Outcome

if TYPE_CHECKING:
    from verify.report import CheckResult

ROOT = Path(verify.__file__).parents[1]
CHECKS = '''
import pytest

from verify.errors import FactCommandError
from verify.verdict import Finding, Verdict, not_shown

GOOD = Verdict(("seen",))


def test_holds(claim):
    """Holds."""
    claim.settle(GOOD)


def test_false(claim):
    """Is false."""
    claim.settle(Verdict(("seen",), (Finding("what", "a", "b", "mend it"),)))


def test_not_shown(claim):
    """Is not shown."""
    claim.settle(not_shown("no reason to look"))


def test_settles_nothing(claim):
    """Settles nothing."""


def test_has_no_claim():
    """Has no claim."""


def test_looks_at_nothing(claim):
    """Looks at nothing."""
    claim.settle(Verdict())


def test_skips(claim):
    """Skips without a verdict."""
    pytest.skip("not today")


def test_fails_by_itself(claim):
    """Fails without a verdict."""
    pytest.fail("by itself")


def test_breaks(claim):
    """Breaks."""
    raise ZeroDivisionError("division by zero")


def test_cannot_read(claim):
    """Cannot read its fact."""
    raise FactCommandError("spark-a", ["ip"], 127, "ip: not found")


@pytest.fixture
def broken_ground():
    raise RuntimeError("no ground")


def test_has_no_ground(claim, broken_ground):
    """Has no ground."""
    claim.settle(GOOD)


@pytest.fixture
def broken_end():
    yield
    raise RuntimeError("at the end")


def test_breaks_at_the_end(claim, broken_end):
    """Breaks after its verdict."""
    claim.settle(GOOD)


@pytest.mark.skip(reason="switched off")
def test_switched_off(claim):
    """Is switched off."""
    claim.settle(GOOD)


@pytest.mark.xfail(reason="known")
def test_expected_to_fail(claim):
    """Is expected to fail."""
    claim.settle(Verdict(("seen",), (Finding("what", "a", "b", "mend it"),)))
'''


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckResult]:
    """The results by the check's own name."""
    told = run(locked(tmp_path_factory.mktemp("outcomes")), CHECKS)
    return {item.check.id.partition(".")[2]: item for item in told.ended()}


def locked(folder: Path) -> Path:
    """The folder with the embedded default and its lock; its nodes are never asked anything."""
    shutil.copytree(ROOT / "examples" / "lab", folder / "examples" / "lab")
    shutil.copy(ROOT / "cluster.toml", folder)
    (folder / ".sparklock" / "lab").mkdir(parents=True)
    (folder / ".sparklock" / "lab" / "ssh_config").touch()
    pipeline.lock(folder / "cluster.toml", Silent())
    return folder


def run(folder: Path, checks: str) -> Told:
    """What was told by a pytest run over checks of our own."""
    (folder / "test_image.py").write_text(checks)
    reader, writer = os.pipe()
    argv = [
        *(sys.executable, "-m", "pytest", "-c", str(ROOT / "verify" / "pytest.ini")),
        *("-p", "verify.conftest", "--rootdir", str(folder), "--events", str(writer)),
        *("--manifest", str(folder / "cluster.toml"), str(folder / "test_image.py")),
    ]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    process = subprocess.Popen(
        argv, pass_fds=[writer], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    )
    os.close(writer)
    told = Told()
    with os.fdopen(reader) as lines, process:
        for line in lines:
            told.hear(line)
    return told


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("holds", Outcome.PASSED),
        ("false", Outcome.FAILED),
        ("not_shown", Outcome.NOT_APPLICABLE),
        ("expected_to_fail", Outcome.FAILED),
    ],
)
def test_a_verdict_is_the_outcome(
    results: dict[str, CheckResult], name: str, outcome: Outcome
) -> None:
    assert results[name].outcome is outcome


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("settles_nothing", "without a verdict"),
        ("has_no_claim", "without a verdict"),
        ("looks_at_nothing", "looked at nothing"),
        ("skips", "not today"),
        ("fails_by_itself", "by itself"),
        ("breaks", "division by zero"),
        ("cannot_read", "ip: not found"),
        ("has_no_ground", "no ground"),
        ("breaks_at_the_end", "at the end"),
        ("switched_off", "switched off"),
    ],
)
def test_whatever_else_happens_is_an_error_that_says_so(
    results: dict[str, CheckResult], name: str, told: str
) -> None:
    assert results[name].outcome is Outcome.ERROR
    assert told in "\n".join(message.text() for message in results[name].messages)


def test_a_run_that_dies_leaves_errors(tmp_path: Path) -> None:
    dies = CHECKS + '\n\ndef test_dies(claim):\n    """Dies."""\n    __import__("os").abort()\n'
    outcomes = {item.check.id: item.outcome for item in run(locked(tmp_path), dies).ended()}
    assert outcomes["image.holds"] is Outcome.PASSED
    assert outcomes["image.dies"] is Outcome.ERROR
