"""A build that is killed at any moment, or has company, spoils nothing for the next one."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.collecting import collect
from builder.lock import all_digests
from builder.pipeline import VERDICTS
from builder.progress import Silent
from tests.project import Project
from tests.repository import ROOT, files

if TYPE_CHECKING:
    from pathlib import Path


def build_until(renames: int, project: Project) -> None:
    """Build, and die without a word at the n-th time that a finished file gets its name."""
    left = itertools.count(renames, -1)

    def hook(event: str, _args: tuple[object, ...]) -> None:
        if event == "os.rename" and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    project.build(output=project.folder / "out")


def test_a_build_killed_at_any_of_its_writes_leaves_all_usable(tmp_path: Path) -> None:
    whole = Project(tmp_path / "whole")
    lock = whole.build(output=whole.folder / "out").lock
    image = files(whole.folder / "out")
    fork = multiprocessing.get_context("fork")

    for renames in itertools.count():
        project = Project(tmp_path / str(renames))
        child = fork.Process(target=build_until, args=(renames, project))
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL

        assert project.build(output=project.folder / "out").lock == lock
        assert project.lock_file.read_bytes() == whole.lock_file.read_bytes()
        assert files(project.folder / "out") == image
        assert all(project.store.is_sound(digest) for digest in all_digests(lock))
        unfinished = project.folder / ".sparklock" / "store" / "tmp"
        assert len(list(unfinished.iterdir())) <= 1
        collect(project.file)
        assert list(unfinished.iterdir()) == []
        assert list(project.folder.glob(".*writing*")) == []
    assert renames > 15


def test_two_builds_at_once_give_what_one_gives(tmp_path: Path) -> None:
    alone, shared = Project(tmp_path / "alone"), Project(tmp_path / "shared")
    lock = alone.build().lock
    argv = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), "build", "--quiet"]

    both = [
        subprocess.Popen(
            [*argv, "--file", str(shared.file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    told = [process.communicate(timeout=60) for process in both]

    assert [process.returncode for process in both] == [0, 0, 0], told
    assert shared.read_lock() == lock
    assert files(shared.store.root) == files(alone.store.root)
    # One that finds the lock of another needs no donor, and its verdict is one more.
    verdicts = files(shared.folder / VERDICTS)
    assert 1 <= len(verdicts) <= 2
    assert all(name.startswith("verdict-") for name in verdicts)


@pytest.mark.parametrize("missing", ["lock", "store", "nothing"])
def test_a_build_interrupted_by_the_keyboard_says_so(tmp_path: Path, missing: str) -> None:
    project = Project(tmp_path / "project")
    project.build()
    if missing == "lock":
        project.lock_file.unlink()
    if missing == "store":
        shutil.rmtree(project.folder / ".sparklock")

    class Interrupted(Silent):
        def stage(self, text: str) -> None:
            raise KeyboardInterrupt(text)

    with pytest.raises(KeyboardInterrupt):
        pipeline.build(project.file, Interrupted())

    project.build(locked=missing != "lock")
    assert project.store.is_sound(project.read_lock().outputs.manifest_digest)
