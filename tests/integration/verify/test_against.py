"""`inv verify --against`: a pair that was not deployed from a lock never passes for it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.progress import Silent
from tests.integration.verify.conftest import not_passed
from verify.errors import UnprovenError
from verify.run import run_checks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.verify.conftest import Pair

pytestmark = pytest.mark.lab

ONLY = "image or container or model"


def other_lock(pair: Pair, folder: Path, change: Callable[[Path], None]) -> Path:
    """The lock of a changed copy of the pair's project."""
    copy = folder / "other"
    shutil.copytree(pair.manifest_path.parent, copy, symlinks=True)
    change(copy)
    pipeline.lock(copy / "cluster.toml", Silent())
    return copy / "lockfile.json"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def another_cluster(project: Path) -> None:
    edit(project / "cluster.toml", 'name = "', 'name = "other-')


def another_setting(project: Path) -> None:
    edit(project / "cluster.toml", "start_timeout_s = ", "start_timeout_s = 1")


def another_image(project: Path) -> None:
    append_newline(project / "examples/lab/chat_template.jinja")


def another_model(project: Path) -> None:
    append_newline(project / "examples/lab/model/generation_config.json")


def append_newline(path: Path) -> None:
    path.write_text(path.read_text() + "\n")


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (another_cluster, set()),
        (another_setting, set()),
        (another_image, {"image.identity", "image.layers", "image.files"}),
        (another_model, {"model.files"}),
    ],
)
def test_a_lock_that_was_not_deployed_fails_with_a_report(
    pair: Pair, tmp_path: Path, change: Callable[[Path], None], failed: set[str]
) -> None:
    against = other_lock(pair, tmp_path, change)
    report = run_checks(pair.manifest_path, progress=Silent(), only=ONLY, against=against)
    names = {name.partition("[")[0] for name in not_passed(report)}
    assert names == {"container.labels", *failed}
    with pytest.raises(UnprovenError) as caught:
        report.require_passed()
    assert caught.value.exit_code == 6


def test_the_lock_that_was_deployed_passes_under_another_name(pair: Pair, tmp_path: Path) -> None:
    against = tmp_path / "kept.lock"
    shutil.copy(pair.manifest_path.parent / "lockfile.json", against)
    report = run_checks(pair.manifest_path, progress=Silent(), only=ONLY, against=against)
    report.require_passed()
