"""Another deploy at the same time, one that was frozen meanwhile, and one of an older lock."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import Case, at
from tests.integration.deploy.conftest import until

if TYPE_CHECKING:
    from tests.faults.pair import Pair

pytestmark = [pytest.mark.lab, pytest.mark.faults]


@pytest.mark.long  # tests/integration/deploy/test_faults.py has it as well
def test_a_second_deploy_is_told_who_is_at_work(pair: Pair, steps: tuple[str, ...]) -> None:
    case = Case(pair, "a second deploy")
    first = case.run(at(steps, "> stop the old"))
    second = pair.run("deploy")
    assert second.end() == 5
    assert f"pid {first.pid}, since 2" in second.said
    first.release()
    case.settle(first, first.end(), healthy=True)


def test_of_two_deploys_that_begin_at_once_one_gets_the_nodes(pair: Pair) -> None:
    case = Case(pair, "two deploys at once")
    runs = [case.run(), case.run()]
    ended = sorted((run.end(), run.said) for run in runs)
    assert ended[0][0] == 0, ended
    assert "at work on the node" in ended[1][1] or "up to date" in ended[1][1]
    case.settle(runs[0], 0, healthy=True)


def test_a_deploy_that_froze_does_nothing_more_once_another_has_the_nodes(
    pair: Pair, steps: tuple[str, ...]
) -> None:
    case = Case(pair, "controller frozen for longer than its lease")
    frozen = case.run(at(steps, "> stop the old"))
    os.kill(frozen.pid, signal.SIGSTOP)
    until(lambda: not pair.see().guards)
    other = pair.run("deploy")
    assert other.end() == 0, other.said
    before = pair.see()
    os.kill(frozen.pid, signal.SIGCONT)
    frozen.release()
    assert frozen.end() == 5
    assert "heard nothing of each other" in frozen.said
    assert pair.see() == before
    outcome = case.settle(frozen, 5, healthy=True)
    assert (outcome.served, outcome.command) == ("new", "nothing")


def test_a_deploy_of_an_older_lock_is_refused(pair: Pair) -> None:
    """As from a colleague's machine that has not pulled."""
    kept = pair.cluster.folder / "kept"
    names = ("cluster.toml", "lockfile.json", "examples")
    for name in names:
        source = pair.cluster.folder / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        kept.mkdir(exist_ok=True)
        copy(source, kept / name)
    older = pair.variant
    newer = Case(pair, "a newer lock")
    run = newer.run()
    newer.settle(run, run.end(), healthy=True)
    case = Case(pair, "an older lock")
    for name in names:
        source = kept / name
        if source.is_dir():
            shutil.copytree(source, pair.cluster.folder / name, dirs_exist_ok=True)
        else:
            shutil.copy(source, pair.cluster.folder / name)
    pair.variant = older
    run = case.run()
    status = run.end()
    assert status == 3, run.said
    assert "--older" in run.said
    outcome = case.settle(run, status, healthy=True)
    assert (outcome.served, outcome.command) == ("old", "nothing")


def test_after_all_of_that_inv_gc_leaves_two_generations_and_their_images(pair: Pair) -> None:
    pair.collect()
