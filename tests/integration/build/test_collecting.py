"""`inv gc` beside other processes: it never takes what one of them needs, whenever it comes."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from builder.collecting import collect
from builder.oci.errors import StoreBusyError
from tests.project import Project
from tests.repository import ROOT, inv

if TYPE_CHECKING:
    from pathlib import Path

WAITING = """
import pathlib, sys
from builder import pipeline
from builder.progress import Silent
class Waiting(Silent):
    def stage(self, text):
        if text.startswith(sys.argv[3]):
            print("waiting", flush=True)
            sys.stdin.readline()
getattr(pipeline, sys.argv[1])(pathlib.Path(sys.argv[2]), Waiting())
print("done", flush=True)
"""
COLLECTING = """
import pathlib, sys
from builder.edges.store import BlobStore
with BlobStore(pathlib.Path(sys.argv[1])).alone():
    print("waiting", flush=True)
    sys.stdin.readline()
"""


def process(code: str, *args: str) -> subprocess.Popen[str]:
    """A process of ours that has said that it waits."""
    started = subprocess.Popen(
        [sys.executable, "-c", code, *args],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    line = started.stdout.readline()
    assert line == "waiting\n", started.communicate()
    return started


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = Project(tmp_path / "project")
    found.build()
    return found


@pytest.mark.parametrize(
    ("verb", "stage"),
    [("lock", "read base"), ("lock", "resolve"), ("build", "assemble"), ("build", "read donors")],
)
def test_while_something_builds_or_locks_nothing_goes(
    project: Project, verb: str, stage: str
) -> None:
    # The lock is about to be another one: what the new one needs is named by none yet.
    project.write("files/template.jinja", "another\n")
    with process(WAITING, verb, str(project.file), stage) as other:
        result = inv(ROOT, "gc", "--file", str(project.file), cwd=ROOT)
        said, _ = other.communicate("go on\n", timeout=60)

    assert (result.returncode, result.stdout) == (4, "")
    assert "nothing is removed from the store while it is used" in result.stderr
    assert (other.returncode, said.splitlines()[-1]) == (0, "done")
    collect(project.file)
    project.remove("images")
    project.build(locked=True)


def test_who_comes_while_it_removes_waits_for_it(project: Project) -> None:
    store = str(project.folder / ".sparklock" / "store")
    with process(COLLECTING, store) as collecting:
        argv = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), "build", "--locked"]
        with subprocess.Popen(
            [*argv, "--quiet", "--json", "--file", str(project.file)],
            stdout=subprocess.PIPE,
            text=True,
        ) as build:
            with pytest.raises(subprocess.TimeoutExpired):
                build.wait(3)
            with pytest.raises(StoreBusyError):
                collect(project.file)
            collecting.communicate("go on\n")
            told, _ = build.communicate(timeout=60)

    assert build.returncode == 0
    assert json.loads(told)["outputs"] == project.read_lock().outputs.model_dump(mode="json")


def test_a_killed_user_does_not_hold_it_up(project: Project) -> None:
    with process(WAITING, "build", str(project.file), "assemble") as other:
        with pytest.raises(StoreBusyError):
            collect(project.file)
        other.send_signal(signal.SIGKILL)
        other.wait()
        collect(project.file)


def collect_until(removals: int, project: Project) -> None:
    """Collect, and die without a word when so many files were removed."""
    left = itertools.count(removals, -1)

    def hook(event: str, _args: tuple[object, ...]) -> None:
        if event == "os.remove" and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    collect(project.file)


def test_killed_at_any_removal_it_leaves_all_that_is_needed(project: Project) -> None:
    project.write("files/template.jinja", "two")
    project.build()
    project.write("files/template.jinja", "three")
    lock = project.build().lock
    fork = multiprocessing.get_context("fork")

    for removals in (0, 1, 2):
        child = fork.Process(target=collect_until, args=(removals, project))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL

    collect(project.file)
    project.remove("images")
    assert project.build(locked=True).lock == lock


def test_as_a_script_calls_it(project: Project) -> None:
    project.write("files/template.jinja", "another\n")
    project.build()
    args = ("--file", str(project.file), "--json")

    dry = inv(ROOT, "gc", "--dry-run", *args, cwd=ROOT)
    done = inv(ROOT, "gc", "--keep-lock", str(project.lock_file), "--all", *args, cwd=ROOT)

    for result in (dry, done):
        assert (result.returncode, result.stderr) == (0, "")
    first, second = json.loads(dry.stdout), json.loads(done.stdout)
    assert (first["dry_run"], second["dry_run"]) == (True, False)
    assert first["store"]["removed"]["files"] > 0
    assert second["store"]["removed"] == first["store"]["removed"]
