"""The first process of a node: makes its root, starts and stops its services, reaps orphans.

Started by nodes.py as `python -m deploy.lab.node_init FOLDER`. It takes requests on a
socket in the node's /run, which the controller reaches through /proc/PID/root. When this process
ends, the kernel ends everything in the node.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.lab import kernel, node_root, units
from deploy.lab.node_root import NodeConfig
from deploy.lab.processes import own_record, wait_for_end

RECORD_FILE: Final = "init.json"
NAMESPACES: Final = (
    kernel.NEW_NET | kernel.NEW_MOUNT | kernel.NEW_UTS | kernel.NEW_IPC | kernel.NEW_PID
)
CONTROL_SOCKET: Final = "/run/node.sock"
PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
"""The distribution's programs first: /usr/local may hold a Docker client of another version."""
STOP_TIMEOUT_S: Final = 20.0
REQUEST_TIMEOUT_S: Final = 5.0

SSHD_FILE: Final = "/etc/ssh/sparklock_config"
SSHD_CONFIG: Final = """\
ListenAddress {address}
HostKey {folder}/hostkey
AuthorizedKeysFile .ssh/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PidFile none
PrintMotd no
MaxStartups 100
Subsystem sftp internal-sftp
SetEnv PATH={path}
"""


@dataclass(slots=True)
class Service:
    """A program that the node runs: not started, running (pid), or ended (exit code)."""

    argv: tuple[str, ...]
    log: Path
    path: str = PATH
    pid: int | None = None
    exit_code: int | None = None

    def start(self) -> None:
        """Nothing; runs if it did not."""
        if self.pid is not None:
            return
        program = shutil.which(self.argv[0], path=PATH)
        if program is None:
            raise FileNotFoundError(self.argv[0])
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.exit_code = None
        self.pid = os.posix_spawn(
            program,
            (program, *self.argv[1:]),
            {"PATH": self.path, "HOME": "/root", "LANG": "C.UTF-8"},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, str(self.log), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE],  # Python ignores it, and a child would inherit that
        )

    def stop(self, first_signal: signal.Signals) -> None:
        """Nothing; has ended, by SIGKILL if the first signal was not enough."""
        if self.pid is None:
            return
        descriptor = os.pidfd_open(self.pid)
        signal.pidfd_send_signal(descriptor, first_signal)
        if not wait_for_end(descriptor, STOP_TIMEOUT_S):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            wait_for_end(descriptor, STOP_TIMEOUT_S)
        os.close(descriptor)


@dataclass(slots=True)
class Node:
    """The node's services and what is known of them."""

    driver: str
    services: dict[str, Service] = field(default_factory=dict)

    def answer(self, request: dict[str, str]) -> dict[str, object]:
        """The state after the request was done; `do` is status, start, stop or crash."""
        verb, name = request["do"], request.get("service") or ""
        if name.endswith(units.SUFFIX):
            self._read_unit(name)
        if verb == "start":
            self.services[name].start()
        elif verb in {"stop", "crash"}:
            self.services[name].stop(signal.SIGKILL if verb == "crash" else signal.SIGTERM)
            if name == "sshd":
                _end_all("sshd")  # open sessions are processes of their own
            self.reap()
        return {
            "storage_driver": self.driver,
            "running": [name for name, service in self.services.items() if service.pid],
            "exit_codes": {
                name: service.exit_code
                for name, service in self.services.items()
                if service.exit_code is not None
            },
        }

    def start_units(self) -> None:
        """Nothing; every unit that is enabled has been started, as systemd does at boot."""
        for name in units.enabled():
            try:
                self.answer({"do": "start", "service": name})
            except (OSError, ValueError, KeyError) as error:
                print(f"{name} does not start: {error!r}", file=sys.stderr, flush=True)  # noqa: T201 - its log

    def _read_unit(self, name: str) -> None:
        """Nothing; a unit that does not run is the service that its file says now."""
        known = self.services.get(name)
        if known is None or known.pid is None:
            log = Path(node_root.FOLDER, "log", name)
            self.services[name] = Service(units.command_of(name), log)

    def reap(self) -> None:
        """Nothing; no ended process of the node is left as a zombie."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for service in self.services.values():
                if service.pid == pid:
                    service.pid, service.exit_code = None, os.waitstatus_to_exitcode(status)


def _end_all(program: str) -> None:
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().startswith(program):
                os.kill(int(comm.parent.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended by itself in between


def serve(node: Node, listener: socket.socket) -> None:
    """Never; answers requests and reaps until it is killed."""
    wakeup_read, wakeup_write = socket.socketpair()
    for end in (wakeup_read, wakeup_write):
        end.settimeout(0)
    signal.set_wakeup_fd(wakeup_write.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(wakeup_read, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                _answer_one(node, listener)
            else:
                wakeup_read.recv(4096)
        node.reap()


def _answer_one(node: Node, listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(REQUEST_TIMEOUT_S)
        try:
            request = connection.makefile().readline()
            answer = node.answer(json.loads(request))
            connection.sendall(json.dumps(answer).encode() + b"\n")
        except (OSError, ValueError, KeyError) as error:
            # One bad request or lost client must not end the node.
            print(f"request failed: {error!r}", file=sys.stderr, flush=True)  # noqa: T201 - its log


def main(folder: Path) -> None:
    """Never; becomes the node of a folder that nodes.py has prepared."""
    kernel.become_daemon(NAMESPACES)
    own_record().write(folder / RECORD_FILE)
    config = NodeConfig.read(folder)
    socket.sethostname(config.name)
    systemctl = Path(__file__).with_name("systemctl.py").read_text()
    driver = node_root.enter(folder, config)
    inside = Path(node_root.FOLDER)
    Path("/run/sshd").mkdir()
    units.provide_systemctl(systemctl)
    sshd_config = Path(SSHD_FILE)
    sshd_config.parent.mkdir(exist_ok=True)
    sshd_config.write_text(
        SSHD_CONFIG.format(address=config.address, folder=inside, path=f"{units.FOLDER}:{PATH}")
    )
    services = {
        "engine": Service(("dockerd",), inside / "log" / "engine", f"{inside / 'bin'}:{PATH}"),
        # sshd wants its own absolute path, to start itself again for each session
        "sshd": Service(
            ("/usr/sbin/sshd", "-D", "-e", "-f", str(sshd_config)), inside / "log" / "sshd"
        ),
    }
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(CONTROL_SOCKET)
    listener.listen()
    node = Node(driver, services)
    node.start_units()
    serve(node, listener)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
