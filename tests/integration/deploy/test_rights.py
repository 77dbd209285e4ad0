"""What a container may do, as the node's own kernel and engine tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy import pipeline
from verify.report import Outcome
from verify.run import run_checks

if TYPE_CHECKING:
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab


def test_rights_that_the_manifest_gives_are_told_and_no_others_are_there(served: Cluster) -> None:
    report = run_checks(served.file, progress=Silent(), only="container")
    report.require_passed()
    served.change("container", cap_add=["SYS_PTRACE"], ipc="host", ulimits={"stack": 67108864})
    told = pipeline.plan(served.file).text()
    assert 'weakens: [container] ipc = "host": it shares memory' in told
    assert "weakens: [container] cap_add SYS_PTRACE" in served.deploy().text()
    report = run_checks(served.file, progress=Silent(), only="container")
    report.require_passed()
    outcomes = {item.check.id.partition("[")[0]: item.outcome for item in report.checks}
    assert outcomes["container.least_privilege"] is Outcome.NOT_APPLICABLE
    assert outcomes["container.capabilities"] is Outcome.PASSED
