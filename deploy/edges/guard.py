"""Taking the nodes' guards, proving with heartbeats that we hold them, and breaking others'."""

from __future__ import annotations

import os
import pwd
import select
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from deploy import guard, node_errors
from deploy.edges.programs import CALL_S, end_of, read_line, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.edges.ssh import NodeConnection
    from deploy.guard import Found, Holder, Verb

ATTEMPTS: Final = 3
"""How often a guard is asked for that is taken by nobody we can find: it may have just ended."""


def this_process(cluster: str, verb: Verb) -> guard.Holder:
    """We, as the others are told."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return guard.Holder(cluster, f"{user}@{socket.gethostname()}", os.getpid(), since, verb)


class NodeGuard:
    """The guard of one node, held until `close`; made by `take`."""

    def __init__(self, connection: NodeConnection, process: subprocess.Popen[bytes]) -> None:
        self.node = connection.node
        self._connection = connection
        self._process = process
        self._proven_at = now()
        self._sent_at: deque[float] = deque()

    def beat(self) -> None:
        """Tell the node that we live, and take in what it answered to earlier beats."""
        if self._process.poll() is not None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while self._sent_at and select.select([self._process.stdout], [], [], 0)[0]:
            answered = self._process.stdout.read(1)
            if not answered:
                break
            self._proven_at = self._sent_at.popleft()
        self._sent_at.append(now())
        write(self._process.stdin, b"\n")

    @property
    def held(self) -> bool:
        """Whether the guard is ours, for certain."""
        return self._process.poll() is None and now() - self._proven_at < guard.TRUSTED_S

    def loss(self) -> node_errors.GuardLostError:
        """Why the guard is not ours any more; asks the connection, so it may take a moment."""
        status = self._process.poll()
        if status is None or status == guard.EXPIRED_STATUS:
            found = f"the node and this process heard nothing of each other for {guard.TRUSTED_S} s"
            return node_errors.GuardLostError(self.node, found=found)
        if self._connection.alive():
            found = "somebody ended its process on the node, as --break-guard does"
            return node_errors.GuardLostError(self.node, found=found, broken=True)
        return node_errors.GuardLostError(self.node, found="the connection to the node broke")

    def release(self) -> None:
        """Let the process on the node end, and wait for nothing."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """Give the guard back."""
        self.release()
        assert self._process.stdout is not None
        try:
            self._process.wait(guard.BREAKING_S)
        except subprocess.TimeoutExpired:  # the node is silent, and ends the hold by itself
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Guards:
    """The guards of a deploy's nodes: a thread beats for them all until `close`.

    What changes a node asks first. Going on needs every guard, since a pair is one thing. Undoing
    needs the node's own, so that a lost node does not keep the others from being restored; but when
    somebody broke one, the nodes are theirs and nothing more is done on any.
    """

    def __init__(self) -> None:
        self._guards: dict[str, NodeGuard] = {}
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)
        self._beating.start()

    def add(self, taken: NodeGuard) -> None:
        """One more node's guard."""
        self._guards[taken.node] = taken

    def require_all(self) -> None:
        """GuardLostError unless every node's guard is held."""
        for taken in tuple(self._guards.values()):
            if not taken.held:
                raise taken.loss()

    def require(self, node: str) -> None:
        """GuardLostError unless a node's guard is held and nobody has broken another."""
        lost = [taken.loss() for taken in tuple(self._guards.values()) if not taken.held]
        for loss in lost:
            if loss.broken or loss.node == node:
                raise loss

    def close(self) -> None:
        """Give all guards back."""
        self._ended.set()
        self._beating.join()
        for taken in self._guards.values():
            taken.release()
        for taken in self._guards.values():
            taken.close()

    def _beat(self) -> None:
        while not self._ended.wait(guard.BEAT_S):
            for taken in tuple(self._guards.values()):
                taken.beat()


def take(connection: NodeConnection, holder: Holder, *, by_force: bool) -> NodeGuard:
    """The guard of a node; DeployBusyError if another has it.

    `by_force` first ends the hold of another process of the same cluster.
    """
    found: Sequence[Found] = ()
    for _ in range(ATTEMPTS):
        if by_force:
            _break(connection, holder, find(connection, holder))
        taken = _try(connection, holder, wait=by_force)
        if taken is not None:
            return taken
        found = find(connection, holder)
        if found and not by_force:
            break
    known = found[0].holder if found else None
    raise node_errors.DeployBusyError(connection.node, known, cluster=holder.cluster)


def find(connection: NodeConnection, holder: Holder) -> Sequence[Found]:
    """Who holds the guard that a holder wants, as far as /proc shows it to us."""
    listed = connection.run(guard.find_argv(), ok=range(256)).stdout
    return guard.holders_in(listed, holder.folder)


def _break(connection: NodeConnection, ours: Holder, found: Sequence[Found]) -> None:
    for other in found:
        if other.holder.cluster != ours.cluster:
            raise node_errors.DeployBusyError(connection.node, other.holder, cluster=ours.cluster)
        done = connection.run(guard.break_argv(other), ok=range(255))
        if done.status not in {0, guard.CHANGED_STATUS}:
            raise node_errors.GuardUnbreakableError(
                connection.node, found=other.holder.text(), detail=done.stderr
            )


def _try(connection: NodeConnection, holder: Holder, *, wait: bool) -> NodeGuard | None:
    """The guard, or None when somebody has it; RemoteCommandError when it cannot be had at all."""
    argv = guard.hold_argv(holder, wait=wait)
    with tempfile.TemporaryFile() as stderr:
        process = connection.start(argv, stderr)
        taken = NodeGuard(connection, process)
        try:
            assert process.stdout is not None
            if read_line(process.stdout, CALL_S) == guard.READY:
                taken.beat()
                return taken
            status = process.wait(CALL_S)
        except BaseException as error:
            process.kill()
            taken.close()
            if isinstance(error, subprocess.TimeoutExpired):
                raise node_errors.RemoteCommandError(connection.node, argv, None, "") from error
            raise
        taken.close()
        if status == guard.BUSY_STATUS:
            return None
        stderr.seek(0)
        raise connection.failure(argv, status, end_of(stderr.read()))


def now() -> float:
    """Seconds that also pass while this machine sleeps, where the system counts them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
