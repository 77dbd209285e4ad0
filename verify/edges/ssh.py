"""One ssh connection per node, shared by every check and by the way to the API.

A master connection is opened once, with the user's own configuration. Everything after that goes
through its socket, by a configuration of ours that knows no other way in: when the master is lost
a check fails at once, and never reaches another machine by another road.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import testinfra

from verify.errors import NodesNotReadyError, UnreachableNodeError

if TYPE_CHECKING:
    from types import TracebackType

    from builder.manifest import ClusterManifest, Node
    from verify.host import Host

_IDLE_S: Final = 120
"""A master that nobody uses ends itself after so long, should this process be killed."""

_SLACK_S: Final = 20
"""What ssh gets beyond its connect timeout, for keys and login."""


class Connections:
    """The nodes of a manifest, reachable while the context is open.

    Entering raises NodesNotReadyError with a message for every node that cannot be reached.
    """

    def __init__(self, manifest: ClusterManifest, folder: Path) -> None:
        """`folder` is the manifest's own, from which [ssh] config is found."""
        self._nodes = manifest.nodes
        self._timeout_s = manifest.ssh.connect_timeout_s
        self._user_config = folder / manifest.ssh.config if manifest.ssh.config else None
        self._folder = Path()

    def __enter__(self) -> Self:
        """Open all masters at once."""
        # Not TMPDIR, nor a node's name: a socket's path has 108 bytes at most, and ssh adds to it.
        self._folder = Path(tempfile.mkdtemp(prefix="sparklock-verify-", dir="/tmp"))
        try:
            self._open_all()
            self._config.write_text("".join(self._host_block(node) for node in self._nodes))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the masters and with them all forwardings."""
        self._close()

    def host(self, node: Node) -> Host:
        """The node as testinfra reaches it."""
        host: Host = testinfra.get_host(
            f"ssh://{node.name}", ssh_config=str(self._config), controlpersist=0
        )
        return host

    def forward(self, node: Node, host: str, port: int) -> Path:
        """A local socket that leads to an address as the node sees it."""
        local = self._path(node, "api")
        self._control(node, "forward", "-L", f"{local}:{host}:{port}")
        return local

    @property
    def _config(self) -> Path:
        return self._folder / "config"

    def _socket(self, node: Node) -> Path:
        return self._path(node, "ssh")

    def _path(self, node: Node, kind: str) -> Path:
        return self._folder / f"{self._nodes.index(node)}.{kind}"

    def _open_all(self) -> None:
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            failures = [error for error in pool.map(self._open, self._nodes) if error]
        if failures:
            raise NodesNotReadyError(
                tuple(message for error in failures for message in error.messages)
            )

    def _open(self, node: Node) -> UnreachableNodeError | None:
        """Nothing, or why the node cannot be reached.

        Output goes to a file, since the master keeps a pipe open and a reader would wait for it.
        """
        config = ("-F", str(self._user_config)) if self._user_config else ()
        argv = ("ssh", *config, "-o", "BatchMode=yes", "--", node.ssh, "true")
        options = {
            "ControlMaster": "yes",
            "ControlPath": self._socket(node),
            "ControlPersist": _IDLE_S,
            "ConnectTimeout": self._timeout_s,
            "ServerAliveInterval": 5,
            "ServerAliveCountMax": 3,
        }
        settings = (word for key, value in options.items() for word in ("-o", f"{key}={value}"))
        with tempfile.TemporaryFile() as output:
            try:
                status = subprocess.run(
                    [argv[0], *settings, *argv[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=self._timeout_s + _SLACK_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                return UnreachableNodeError(node.name, argv, 124, "no answer in time")
            except FileNotFoundError:
                return UnreachableNodeError(node.name, argv, 127, "ssh is not installed here")
            output.seek(0)
            text = output.read().decode(errors="replace")
        return UnreachableNodeError(node.name, argv, status, text) if status else None

    def _host_block(self, node: Node) -> str:
        lines = [
            f"Host {node.name}",
            f"ControlPath {self._socket(node)}",
            "ControlMaster no",
            "ProxyCommand false",
            "BatchMode yes",
            "LogLevel ERROR",
        ]
        return "\n  ".join(lines) + "\n"

    def _control(self, node: Node, *words: str) -> None:
        argv = ("ssh", "-S", str(self._socket(node)), "-O", *words, node.name)
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_SLACK_S
        )
        if done.returncode:
            text = done.stderr.decode(errors="replace")
            raise UnreachableNodeError(node.name, argv, done.returncode, text)

    def _close(self) -> None:
        sockets = [self._socket(node) for node in self._nodes]
        for node in self._nodes:
            self._ask_to_end(node)
        deadline = time.monotonic() + _SLACK_S
        while any(path.exists() for path in sockets) and time.monotonic() < deadline:
            time.sleep(0.01)  # a master removes its socket when it has said goodbye to its server
        shutil.rmtree(self._folder)

    def _ask_to_end(self, node: Node) -> None:
        """Nothing; a master that does not answer ends by being idle."""
        try:
            self._control(node, "exit")
        except UnreachableNodeError:  # no master listens there, or none ever did
            self._socket(node).unlink(missing_ok=True)
        except subprocess.TimeoutExpired:
            return
