"""One image on two kinds of image store, each of which has its own name for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deploy import daily
from tests.integration.verify.conftest import locked_pair, not_passed

if TYPE_CHECKING:
    from pathlib import Path

    from deploy.lab.lifecycle import LabState

pytestmark = pytest.mark.lab


def test_both_stores_run_the_locked_image_and_its_name_is_told_by_the_store(
    mixed_lab: LabState, tmp_path: Path
) -> None:
    pair = locked_pair(mixed_lab, tmp_path)
    daily.stop(pair.manifest_path, remove=True)  # other tests deploy newer locks of this cluster
    pair.deploy()
    report = pair.verify()
    assert not_passed(report) == set()
    evidence = {item.check.id: item.evidence[0] for item in report.checks if item.evidence}
    assert "graph driver" in evidence["image.identity[spark-a]"]
    assert "containerd store" in evidence["image.identity[spark-b]"]
