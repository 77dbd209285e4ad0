"""Starting, asking and ending one node, seen from the machine."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from deploy.lab import access, fabric, network, runtime
from deploy.lab.errors import LabCommandError, LeftoverError, NodeOffError, NodeStartError
from deploy.lab.node_init import CONTROL_SOCKET, RECORD_FILE
from deploy.lab.node_root import NodeConfig
from deploy.lab.processes import ProcessRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from deploy.lab.spec import LabSpec, NodeSpec

ServiceName = Literal["engine", "sshd"]
Verb = Literal["status", "start", "stop", "crash"]

START_TIMEOUT_S: Final = 60.0
END_TIMEOUT_S: Final = 20.0
REQUEST_TIMEOUT_S: Final = 45.0
SSH_TIMEOUT_S: Final = 30.0
POLL_INTERVAL_S: Final = 0.03
ENGINE_SOCKET: Final = "/run/docker.sock"


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as observed: what works, and in words what does not."""

    name: str
    address: str
    pid: int | None
    engine_version: str
    storage_driver: str
    problem: str

    @property
    def healthy(self) -> bool:
        """Whether it can be used: sshd lets us in, and the engine answers there."""
        return not self.problem

    def text(self) -> str:
        """One line."""
        engine = f"Docker {self.engine_version}, {self.storage_driver}"
        return f"{self.name}  {self.address}  {engine if self.healthy else self.problem}"


def start_hub(spec: LabSpec) -> ProcessRecord:
    """The hub's process; the bridges are there and the machine has its links to them."""
    record = _launch(
        "hub", "deploy.lab.hub", hub_record(spec), hub_record(spec), spec.path / "hub.log"
    )
    network.connect_hub(spec, record.pid)
    return record


def start_node(spec: LabSpec, node: NodeSpec, hub: ProcessRecord) -> None:
    """Nothing; the node is on, connected, and both its services answer.

    NodeStartError with the end of the log that tells why not.
    """
    logs = node.folder / "log"
    logs.mkdir(parents=True, exist_ok=True)
    fabric.write_devices(node.folder / "infiniband", node.halves)
    access.install_access(spec, node)
    _install_runtime(node.folder / "bin")
    node_config(spec, node).write(node.folder)
    record_file = node.folder / RECORD_FILE
    record = _launch(node.name, "deploy.lab.node_init", node.folder, record_file, logs / "init")
    network.connect_node(node, hub.pid, record.pid)
    _await(node, "init", "it did not finish its set-up", lambda: _control_is_open(node))
    request(node, "start", "engine")
    request(node, "start", "sshd")
    await_service(node, "engine")
    await_service(node, "sshd")


def _install_runtime(folder: Path) -> None:
    """Nothing; the folder, first on the engine's PATH, has our runc if the machine needs it."""
    folder.mkdir(exist_ok=True)
    if not runtime.may_raise_limits():
        shutil.copy(runtime.__file__, folder / runtime.PROGRAM)


def node_config(spec: LabSpec, node: NodeSpec) -> NodeConfig:
    """What the process inside the node has to know."""
    containerd_store = node.engine == "containerd-store"
    names = (f"{half.address} {other.name}" for other in spec.nodes for half in other.halves[:1])
    return NodeConfig(
        name=node.name,
        address=str(node.address),
        hosts="\n".join(("127.0.0.1 localhost", *names)) + "\n",
        tree=str(spec.tree) if containerd_store else "/",
        cgroup_parent=f"/{spec.cgroup}/{node.name}",
        containerd_store=containerd_store,
    )


def hub_record(spec: LabSpec) -> Path:
    """The file that records the hub's process."""
    return spec.path / "hub.json"


def running(record_file: Path) -> ProcessRecord | None:
    """The recorded process, if it runs."""
    record = ProcessRecord.read(record_file)
    return record if record is not None and record.alive else None


def power_off(node: NodeSpec) -> None:
    """Nothing; everything in the node has ended at once, as in a power cut. Its disk stays."""
    end_process(node.name, node.folder / RECORD_FILE)


def end_process(name: str, record_file: Path) -> None:
    """Nothing; the recorded process has ended, and its record is gone."""
    record = ProcessRecord.read(record_file)
    if record is not None and not record.kill(END_TIMEOUT_S):
        raise LeftoverError([f"process {record.pid}"], place=f"lab node {name}")
    record_file.unlink(missing_ok=True)


def request(node: NodeSpec, verb: Verb, service: ServiceName | None = None) -> dict[str, object]:
    """The node's answer after it did what was asked; NodeOffError if nobody is there."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(REQUEST_TIMEOUT_S)
        try:
            connection.connect(str(inside(node, CONTROL_SOCKET)))
            connection.sendall(json.dumps({"do": verb, "service": service}).encode() + b"\n")
            line = connection.makefile().readline()
        except OSError as error:
            raise NodeOffError(node.name) from error
    if not line:
        raise NodeStartError(node.name, f"{verb} {service} failed", *_log(node, "init"))
    answer: dict[str, object] = json.loads(line)
    return answer


def await_service(node: NodeSpec, service: ServiceName) -> None:
    """Nothing; the service answers. NodeStartError, at once if the service has ended."""
    answers = _engine_answers if service == "engine" else _sshd_answers

    def ready() -> bool:
        if answers(node):
            return True
        exit_codes = request(node, "status")["exit_codes"]
        if isinstance(exit_codes, dict) and service in exit_codes:
            what = f"{service} ended with status {exit_codes[service]}"
            raise NodeStartError(node.name, what, *_log(node, service))
        return False

    _await(node, service, f"{service} does not answer after {START_TIMEOUT_S:.0f} s", ready)


def observe(spec: LabSpec, node: NodeSpec) -> NodeState:
    """The node as it is now, by the way that users take: ssh, host key checked, docker inside."""
    record = running(node.folder / RECORD_FILE)
    pid = record.pid if record else None
    driver = problem = ""
    argv = ["docker", "version", "--format", "{{.Server.Version}}"]
    if pid is None:
        return NodeState(node.name, str(node.address), pid, "", "", problem="off")
    status, version, stderr = run_by_ssh(spec, node, argv)
    if status != 0:
        problem = stderr.strip() or f"ssh ended with status {status}"
        return NodeState(node.name, str(node.address), pid, "", "", problem)
    try:
        driver = str(request(node, "status")["storage_driver"])
    except NodeOffError:
        problem = "its first process does not answer"
    return NodeState(node.name, str(node.address), pid, version.strip(), driver, problem)


def inside(node: NodeSpec, path: str) -> Path:
    """A path of the node's own file system, reached from the machine; NodeOffError if it is off."""
    record = running(node.folder / RECORD_FILE)
    if record is None:
        raise NodeOffError(node.name)
    return Path(f"/proc/{record.pid}/root{path}")


def run_by_ssh(spec: LabSpec, node: NodeSpec, argv: Sequence[str]) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command on the node; 255 if ssh could not get there."""
    command = ["ssh", "-F", str(spec.ssh_config), "-o", "ConnectTimeout=5", node.name, "--"]
    command.append(shlex.join(argv))  # ssh always starts a shell over there
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=SSH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return 255, "", f"no answer by ssh after {SSH_TIMEOUT_S:.0f} s"
    return done.returncode, done.stdout, done.stderr


def run_checked(spec: LabSpec, node: NodeSpec, argv: Sequence[str]) -> str:
    """What a command printed on the node; LabCommandError unless it ended with status 0."""
    status, stdout, stderr = run_by_ssh(spec, node, argv)
    if status != 0:
        raise LabCommandError(argv, status, stderr, place=f"lab node {node.name}")
    return stdout


def _launch(name: str, module: str, argument: Path, record_file: Path, log: Path) -> ProcessRecord:
    """The record of a process that `python -m module argument` has become a daemon of."""
    record_file.unlink(missing_ok=True)
    root = Path(__file__).resolve().parents[2]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), "PYTHONUTF8": "1"}
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", module, str(argument)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd="/",
            check=False,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while done.returncode == 0 and time.monotonic() < deadline:
        record = running(record_file)
        if record is not None:
            return record
        time.sleep(POLL_INTERVAL_S)
    raise NodeStartError(name, "its first process did not start", log, _text(log))


def _await(node: NodeSpec, log: str, what: str, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready():
        if running(node.folder / RECORD_FILE) is None:
            raise NodeStartError(node.name, "its first process ended", *_log(node, "init"))
        if time.monotonic() > deadline:
            raise NodeStartError(node.name, what, *_log(node, log))
        time.sleep(POLL_INTERVAL_S)


def _control_is_open(node: NodeSpec) -> bool:
    try:
        request(node, "status")
    except NodeOffError:
        return False
    return True


def _engine_answers(node: NodeSpec) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        try:
            connection.connect(str(inside(node, ENGINE_SOCKET)))
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: node\r\n\r\n")
            return b" 200 " in connection.recv(64)
        except OSError:
            return False


def _sshd_answers(node: NodeSpec) -> bool:
    try:
        with socket.create_connection((str(node.address), 22), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _log(node: NodeSpec, name: str) -> tuple[Path, str]:
    path = node.folder / "log" / name
    return path, _text(path)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
