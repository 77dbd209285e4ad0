"""A real sshd and a real dockerd on this machine, for as long as one module's tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.edges.engine import Engine
from deploy.edges.master import Destination
from deploy.edges.ssh import NodeConnection
from deploy.lab import runtime
from deploy.lab.runtime import may_raise_limits
from deploy.node_errors import EngineStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_S = 30


@dataclass(frozen=True)
class Sshd:
    """A running sshd with one known key; `config` is an ssh_config with the host `node`."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def config(self) -> Path:
        return self.folder / "ssh_config"

    def destination(self, host: str = "node", *, timeout_s: int = 5) -> Destination:
        return Destination("spark-a", host, self.config, timeout_s)

    def add_host(self, host: str, **options: str) -> str:
        """A host of the ssh_config that differs from `node` in some options."""
        merged = {
            "HostName": "127.0.0.1",
            "Port": str(self.port),
            "User": "root",
            "IdentityFile": str(self.folder / "key"),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(self.folder / "known_hosts"),
            "GlobalKnownHostsFile": "/dev/null",
            **options,
        }
        lines = [f"Host {host}", *(f"  {key} {value}" for key, value in merged.items())]
        with self.config.open("a") as file:
            file.write("\n".join([*lines, ""]))
        return host


@pytest.fixture(scope="module")
def start_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Sshd]]:
    """Starts an sshd with more lines of configuration; all end with the module."""
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists():
        pytest.skip("needs root and sshd")
    with ExitStack() as stack:
        yield lambda *lines: stack.enter_context(_sshd(tmp_path_factory.mktemp("sshd"), lines))


@contextmanager
def _sshd(folder: Path, lines: tuple[str, ...]) -> Iterator[Sshd]:
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("key", "host_key"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(make, check=True)
    port = free_port()
    settings = (
        f"ListenAddress 127.0.0.1:{port}",
        f"HostKey {folder / 'host_key'}",
        f"AuthorizedKeysFile {folder / 'key.pub'}",
        *("PidFile none", "StrictModes no", "UsePAM no", "PermitRootLogin prohibit-password"),
        f"SetEnv HOME={folder}",  # this machine's shell start files are no part of any test
        *lines,
    )
    (folder / "sshd_config").write_text("\n".join([*settings, ""]))
    kind, key, *_ = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    with (folder / "log").open("wb") as log:
        argv = ["/usr/sbin/sshd", "-D", "-e", "-f", str(folder / "sshd_config")]
        process = subprocess.Popen(argv, stderr=log)
    try:
        until(lambda: _listens(port))
        sshd = Sshd(folder, port, process)
        sshd.add_host("node")
        yield sshd
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def sshd(start_sshd: Callable[..., Sshd]) -> Sshd:
    return start_sshd()


@pytest.fixture(scope="module")
def connection(sshd: Sshd) -> Iterator[NodeConnection]:
    with NodeConnection(sshd.destination()) as opened:
        yield opened


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine of this test run's own, without network."""
    if os.geteuid() != 0 or not Path("/usr/sbin/dockerd").exists():
        pytest.skip("needs root and dockerd")
    folder = tmp_path_factory.mktemp("dockerd")
    path = folder / "docker.sock"
    argv = [
        *("/usr/sbin/dockerd", "--host", f"unix://{path}", "--bridge=none", "--iptables=false"),
        *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
        *("--pidfile", str(folder / "pid"), "--storage-driver", "vfs"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, env=_with_lab_runc(folder))
    try:
        until(path.exists)
        opened = Engine("spark-a", path, lambda: EngineStoppedError("spark-a", found=str(path)))
        yield opened
        opened.close()
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
        # The network namespace of containers without one of their own; dockerd leaves it mounted.
        subprocess.run(["umount", str(folder / "exec" / "netns" / "default")], check=False)


def _with_lab_runc(folder: Path) -> dict[str, str]:
    """The environment of an engine; where limits cannot be raised, with the lab's runc on PATH."""
    if may_raise_limits():
        return dict(os.environ)
    programs = folder / "bin"
    programs.mkdir()
    shutil.copy(Path(runtime.__file__), programs / runtime.PROGRAM)
    (programs / runtime.PROGRAM).chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; fails at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "deadline passed"
        time.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
