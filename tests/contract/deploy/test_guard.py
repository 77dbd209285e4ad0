from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy import guard, node_errors
from deploy.edges import guard as edge
from deploy.edges.guard import Guards, find, take
from deploy.edges.ssh import NodeConnection
from tests.contract.deploy.conftest import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deploy.edges.guard import NodeGuard
    from tests.contract.deploy.conftest import Sshd

ROOT = Path(__file__).parents[3]


def holder(folder: Path, *, cluster: str = "pair", verb: str = "deploy") -> guard.Holder:
    return guard.Holder(cluster, "me@here", 77, "2026-01-02T03:04:05Z", verb, str(folder))


@contextmanager
def held(
    connection: NodeConnection, who: guard.Holder, *, by_force: bool = False
) -> Iterator[NodeGuard]:
    taken = take(connection, who, by_force=by_force)
    try:
        yield taken
    finally:
        taken.close()


@pytest.fixture
def pair(sshd: Sshd) -> Iterator[tuple[NodeConnection, NodeConnection]]:
    with NodeConnection(sshd.destination()) as ours, NodeConnection(sshd.destination()) as theirs:
        yield ours, theirs


def test_a_guard_keeps_others_out_and_tells_who_has_it_until_it_ends(
    pair: tuple[NodeConnection, NodeConnection], tmp_path: Path
) -> None:
    ours, theirs = pair
    mine = holder(tmp_path, verb="rollback")
    with held(ours, mine):
        with pytest.raises(node_errors.DeployBusyError) as caught:
            take(theirs, holder(tmp_path), by_force=False)
        assert caught.value.holder == mine
        text = str(caught.value)
        assert "rollback of cluster pair by me@here, pid 77, since 2026-01-02T03:04:05Z" in text
        assert "--break-guard" in text
    with held(theirs, holder(tmp_path)) as taken:
        assert taken.held
    assert not find(theirs, mine)


def test_a_guard_goes_with_its_connection(sshd: Sshd, tmp_path: Path) -> None:
    ours = NodeConnection(sshd.destination())
    taken = take(ours, holder(tmp_path), by_force=False)
    ours.close()
    until(lambda: not taken.held)
    assert "connection" in str(taken.loss())
    taken.close()
    with NodeConnection(sshd.destination()) as theirs:
        until(lambda: not find(theirs, holder(tmp_path)))
        with held(theirs, holder(tmp_path)):
            pass


def test_a_guard_that_cannot_be_had_says_why(connection: NodeConnection) -> None:
    with pytest.raises(node_errors.RemoteCommandError, match="cannot open lock file"):
        take(connection, holder(Path("/no/such/folder/file")), by_force=False)


def test_a_broken_guard_is_the_breakers_and_the_other_does_nothing_more(
    pair: tuple[NodeConnection, NodeConnection], tmp_path: Path
) -> None:
    ours, theirs = pair
    guards = Guards()
    lost, kept = tmp_path / "lost", tmp_path / "kept"
    for folder in (lost, kept):
        folder.mkdir()
    guards.add(take(ours, holder(lost), by_force=False))
    guards.require_all()
    guards.require(ours.node)
    with held(theirs, holder(lost), by_force=True) as taken:
        assert taken.held
        for ask in (guards.require_all, lambda: guards.require("another node")):
            with pytest.raises(node_errors.GuardLostError, match="somebody ended") as caught:
                ask()
            assert caught.value.broken
    guards.close()


def test_a_process_that_is_stopped_is_broken_too(
    pair: tuple[NodeConnection, NodeConnection], tmp_path: Path
) -> None:
    ours, theirs = pair
    taken = take(ours, holder(tmp_path), by_force=False)
    os.kill(find(theirs, holder(tmp_path))[0].node_pid, signal.SIGSTOP)
    with held(theirs, holder(tmp_path), by_force=True):
        until(lambda: not taken.held)
    taken.close()


def test_another_clusters_guard_is_not_broken(
    pair: tuple[NodeConnection, NodeConnection], tmp_path: Path
) -> None:
    ours, theirs = pair
    with held(ours, holder(tmp_path, cluster="other")) as taken:
        for by_force in (False, True):
            with pytest.raises(node_errors.DeployBusyError, match="cluster other") as caught:
                take(theirs, holder(tmp_path), by_force=by_force)
            assert "--break-guard" not in str(caught.value)
        assert taken.held


def test_without_heartbeats_the_node_gives_the_guard_up(
    pair: tuple[NodeConnection, NodeConnection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    monkeypatch.setattr(guard, "_HOLD", guard._HOLD.replace(f"-t {guard.LEASE_S}", "-t 1"))
    taken = take(ours, holder(tmp_path), by_force=False)
    until(lambda: not taken.held)
    assert "heard nothing" in str(taken.loss())
    assert not taken.loss().broken
    taken.close()
    with held(theirs, holder(tmp_path)):
        pass


def test_a_guard_whose_node_does_not_answer_heartbeats_is_not_trusted(
    connection: NodeConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(connection, holder(tmp_path)) as taken:
        later = edge.now() + guard.TRUSTED_S
        until(lambda: _answered(taken))
        with monkeypatch.context() as changed:
            changed.setattr(edge, "now", lambda: later + 60)
            assert not taken.held
            assert "heard nothing" in str(taken.loss())
        assert taken.held


def _answered(taken: NodeGuard) -> bool:
    taken.beat()
    return len(taken._sent_at) == 1


def test_a_killed_controller_gives_the_guard_back(sshd: Sshd, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from deploy.edges.master import *\n"
        "from deploy.edges.ssh import *; from deploy.edges.guard import *\n"
        f"c = NodeConnection(Destination('n', 'node', pathlib.Path({str(sshd.config)!r}), 5))\n"
        f"who = guard.Holder('pair', 'me@here', 7, 'now', 'deploy', {str(tmp_path)!r})\n"
        "g = take(c, who, by_force=False)\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    with (
        NodeConnection(sshd.destination()) as theirs,
        subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as controller,
    ):
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"held\n"
        assert len(find(theirs, holder(tmp_path))) == 1
        controller.kill()
        until(lambda: not find(theirs, holder(tmp_path)))


def test_a_guard_that_another_user_holds_cannot_be_broken_and_says_so(
    pair: tuple[NodeConnection, NodeConnection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for another user: `kill` and `sudo` that are refused."""
    ours, theirs = pair
    with held(ours, holder(tmp_path)) as taken:
        refused = guard._BREAK.replace("kill -KILL", "false").replace("sudo -n", "false")
        monkeypatch.setattr(guard, "_BREAK", refused)
        with pytest.raises(node_errors.GuardUnbreakableError, match="me@here"):
            take(theirs, holder(tmp_path), by_force=True)
        assert taken.held
