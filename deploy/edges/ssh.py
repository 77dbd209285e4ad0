"""One ssh connection per node, and everything that goes through it.

A master process holds the connection; commands, the engine's socket and ports share it, which
makes a call cost milliseconds instead of a login. The user's own ssh decides about keys, hosts and
jumps; host key checking is never weakened.
"""

from __future__ import annotations

import shlex
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, Self

from deploy import node_errors
from deploy.edges.master import READY, Master
from deploy.edges.programs import CALL_S, answer, end_of, finished, read_line, started
from deploy.errors import DeployInterruptedError
from deploy.parse import listens

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from builder.errors import NodeError
    from deploy.edges.logins import Logins
    from deploy.edges.master import Destination

LOGIN_S: Final = 20
"""What a login may take after the TCP connection, which has its own limit, in seconds."""

SSH_FAILED: Final = 255
HANGS: Final = b"the ssh process that holds the connection does not answer"

CAUSES: Final[tuple[tuple[str, type[node_errors.SshError]], ...]] = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", node_errors.HostKeyChangedError),
    ("Host key verification failed", node_errors.HostKeyUnknownError),
    ("Permission denied (", node_errors.SshPermissionError),
    ("Too many authentication failures", node_errors.SshPermissionError),
    ("Could not resolve hostname", node_errors.NodeUnresolvedError),
    ("Connection refused", node_errors.NodeRefusedError),
    ("timed out", node_errors.NodeUnreachableError),
    ("No route to host", node_errors.NodeUnreachableError),
    ("Network is unreachable", node_errors.NodeUnreachableError),
)
"""What OpenSSH writes in the C locale, most telling first, and what it means."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended on a node; `stderr` is its end as text."""

    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: str


class Opening:
    """The connections that are made at the same time, so that none outlives an interrupt."""

    def __init__(self, logins: Logins | None = None) -> None:
        """`logins` are those that are on their way."""
        self._lock = threading.Lock()
        self._connections: list[NodeConnection] = []
        self._ended = False
        self._logins = logins

    def begun(self, destination: Destination) -> Master | None:
        """The login to exactly this destination, if it was begun; it is the caller's to end."""
        return None if self._logins is None else self._logins.take(destination)

    def add(self, connection: NodeConnection) -> None:
        """One that is being made; DeployInterruptedError if there is no use for it any more."""
        with self._lock:
            if self._ended:
                raise DeployInterruptedError
            self._connections.append(connection)

    def end(self) -> None:
        """Give up those that still stand, and those to come."""
        with self._lock:
            self._ended = True
        for connection in self._connections:
            connection.abandon()


class NodeConnection:
    """An open connection to one node; a context manager that ends it, and only it.

    Its master dies with our process, whatever ends that.
    """

    def __init__(self, destination: Destination, opening: Opening | None = None) -> None:
        """Connect; `opening` can give it up meanwhile, and may have begun it."""
        self.destination = destination
        self._forwards = 0
        begun = None if opening is None else opening.begun(destination)
        try:
            self._master = Master(destination) if begun is None else begun
        except FileNotFoundError as error:
            raise node_errors.SshMissingError(self.node, destination.ssh, str(error)) from error
        try:
            if opening is not None:
                opening.add(self)
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def node(self) -> str:
        """The node's name."""
        return self.destination.node

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection with all that goes through it; again is nothing."""
        self._master.close()

    def abandon(self) -> None:
        """End the connection at once, also while it is being made; all that uses it fails."""
        self._master.abandon()

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = CALL_S,
        ok: Collection[int] = (0,),
    ) -> Completed:
        """A command's result; RemoteCommandError unless its status is one of `ok`.

        The login shell of the node parses one quoted line, so an argument arrives as it is.
        NodeLostError when the connection is gone.
        """
        command = [*self._client(), "-T", "--", self.destination.ssh, shlex.join(argv)]
        try:
            done = finished(command, stdin, timeout_s)
        except subprocess.TimeoutExpired as error:
            raise node_errors.RemoteCommandError(self.node, argv, None, "") from error
        result = Completed(tuple(argv), done.returncode, done.stdout, end_of(done.stderr))
        if result.status not in ok:
            raise self.failure(argv, result.status, result.stderr)
        return result

    def start(self, argv: Sequence[str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        """A command that runs while the caller writes to its stdin and reads its stdout."""
        argv = [*self._client(), "-T", "--", self.destination.ssh, shlex.join(argv)]
        return started(argv, stderr)

    def failure(self, argv: Sequence[str], status: int, stderr: str) -> NodeError:
        """Why a command failed: the connection broke, or the command itself."""
        if status == SSH_FAILED and not self.alive():
            return node_errors.NodeLostError(
                self.node, self.destination.ssh, self._master.said() or stderr
            )
        return node_errors.RemoteCommandError(self.node, argv, status, stderr)

    def alive(self) -> bool:
        """Whether the connection still stands, as far as this side knows."""
        return self._master.process.poll() is None and self._ask_master("check").returncode == 0

    def forward_socket(self, remote_path: str) -> Path:
        """A local unix socket that leads to a unix socket of the node."""
        return self._forward_local(remote_path)

    def forward_local(self, host: str, port: int) -> Path:
        """A local unix socket that leads to a TCP port as the node reaches it."""
        return self._forward_local(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    @contextmanager
    def forward_remote(self, local_port: int) -> Iterator[int]:
        """A port on the node's loopback that leads to a port of ours; the node chooses its number.

        ForwardingForbiddenError if sshd does not allow it.
        """
        route = f"127.0.0.1:0:127.0.0.1:{local_port}"
        done = self._ask_master("forward", "-R", route)
        number = done.stdout.strip()
        if done.returncode != 0 or not number.isdigit():
            raise self._no_forward(done)
        try:
            yield int(number)
        finally:
            self._ask_master("cancel", "-R", route)

    def forwards_forbidden(self) -> bool:
        """Whether sshd has refused to connect a forwarded port; it tells only when one is used."""
        return "administratively prohibited" in self._master.said()

    def socket_problem(self, path: str) -> NodeError:
        """Why nothing answers on a forwarded socket, asked on the node itself.

        sshd says the same of a forbidden, a missing and a dead socket; the node's kernel does not.
        """
        if self.run(("test", "-S", path), ok=(0, 1)).status:
            return node_errors.EngineSocketMissingError(self.node, found=path)
        if self.run(("test", "-w", path), ok=(0, 1)).status:
            return node_errors.EngineSocketDeniedError(self.node, found=path)
        sockets = self.run(("cat", "/proc/net/unix")).stdout.decode(errors="replace")
        if listens(sockets, path):
            return self.forbidden()
        return node_errors.EngineStoppedError(self.node, found=path)

    def forbidden(self) -> node_errors.ForwardingForbiddenError:
        """That sshd forbids forwarding, in its own words."""
        return node_errors.ForwardingForbiddenError(
            self.node, self.destination.ssh, self._master.said()
        )

    def _forward_local(self, target: str) -> Path:
        self._forwards += 1
        path = self._master.folder / str(self._forwards)
        done = self._ask_master("forward", "-L", f"{path}:{target}")
        if done.returncode != 0:
            raise self._no_forward(done)
        return path

    def _no_forward(self, done: subprocess.CompletedProcess[bytes]) -> NodeError:
        said = end_of(done.stderr)
        if not self.alive():
            return node_errors.NodeLostError(
                self.node, self.destination.ssh, self._master.said() or said
            )
        return node_errors.ForwardingForbiddenError(self.node, self.destination.ssh, said)

    def _wait_until_ready(self) -> None:
        stdout = self._master.process.stdout
        assert stdout is not None
        limit_s = self.destination.connect_timeout_s + LOGIN_S
        line = read_line(stdout, limit_s)
        if line == READY:
            return
        if line:
            said = line.decode(errors="replace")
            raise node_errors.NoisyShellError(self.node, self.destination.ssh, said)
        raise self._no_connection()

    def _no_connection(self) -> NodeError:
        said = self._master.said()
        kinds = [kind for text, kind in CAUSES if text in said]
        if not kinds and self._still_tries():
            kinds = [node_errors.NodeUnreachableError]
        kind = kinds[0] if kinds else node_errors.SshError
        return kind(self.node, self.destination.ssh, said, self.destination.config)

    def _still_tries(self) -> bool:
        """Whether ssh waits for an answer; one that gave up closes its output before it ends."""
        try:
            self._master.process.wait(1)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _client(self) -> tuple[str, ...]:
        """The start of a command that uses the master, and never a connection of its own."""
        alone = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false", "-o", "BatchMode=yes")
        return ("ssh", "-F", "none", "-S", str(self._master.control), *alone)

    def _ask_master(self, verb: str, *route: str) -> subprocess.CompletedProcess[bytes]:
        """What the master says; one that hangs is no better than none."""
        argv = [*self._client(), "-O", verb, *route, "--", self.destination.ssh]
        try:
            return answer(argv)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, SSH_FAILED, b"", HANGS)
