"""Every check of a real pair fails when the facts that it reads make its claim false."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.integration.verify.falsified import FALSIFIED, ROUNDS
from tests.integration.verify.test_outcomes import ROOT
from verify.events import Told
from verify.report import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.verify.conftest import Pair

pytestmark = pytest.mark.lab


def run_falsified(manifest_path: Path, number: int) -> Told:
    """What the checks told of facts that were altered for each of them."""
    reader, writer = os.pipe()
    checks = ROOT / "verify"
    argv = [
        *(sys.executable, "-m", "pytest", "-c", str(checks / "pytest.ini"), "--quiet"),
        *("-p", "tests.integration.verify.falsified", "--falsify", str(number)),
        *("--rootdir", str(checks), "--events", str(writer)),
        *("--manifest", str(manifest_path), str(checks / "checks")),
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


@pytest.mark.parametrize("number", range(ROUNDS))
def test_every_check_fails_on_its_own_falsification(pair: Pair, number: int) -> None:
    results = run_falsified(pair.manifest_path, number).ended()
    assert {item.check.id.partition("[")[0] for item in results} == set(FALSIFIED)
    not_failed = {
        item.check.id: (item.outcome.value, item.reason, item.messages)
        for item in results
        if item.outcome is not Outcome.FAILED
    }
    assert not_failed == {}
