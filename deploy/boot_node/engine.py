"""A node's Docker Engine, over its unix socket."""

from __future__ import annotations

import http.client
import json
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from .facts import Report

if TYPE_CHECKING:
    from .facts import Config

CALL_S: Final = 60
STOP_S: Final = 20
"""What a rank may take to stop before it is killed."""


PID_FILE: Final = Path("/run/docker.pid")


class NoEngineProcessError(OSError):
    """Nothing tells which process the engine is."""

    def __str__(self) -> str:
        return f"neither {PID_FILE} nor a process named dockerd"


class EngineRefusalError(OSError):
    """The engine did not do what it was asked; its own words are the text."""


class _Socket(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CALL_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(CALL_S)
        self.sock.connect(self._path)


class Engine:
    """This node's Docker Engine; every call raises OSError if it does not do it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        cluster = re.escape(config.cluster)
        self._name = re.compile(rf"/sparklock-{cluster}-g(\d+)-r{config.rank}")

    def report(self) -> Report:
        """How the rank stands; the engine's silence is a problem told, never an error."""
        try:
            return self._report()
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            return Report(self._config.node, problem=f"its engine does not answer ({error})")

    def _report(self) -> Report:
        label = {"label": [f"io.sparklock.cluster={self._config.cluster}"]}
        listed = self._call("GET", f"/containers/json?all=1&filters={quote(json.dumps(label))}")
        found, other = [], ""
        for item in listed:
            name = str(item["Names"][0])
            matched = self._name.fullmatch(name)
            if matched:
                state = self._call("GET", f"/containers/{item['Id']}/json")["State"]
                running, started = bool(state["Running"]), str(state["StartedAt"])
                found.append((running, started, int(matched.group(1)), str(item["Id"])))
            elif item["State"] == "running":
                other = name[1:]
        running, started, generation, container = max(found, default=(False, "", 0, ""))
        return Report(
            node=self._config.node,
            engine=_incarnation(),
            generation=generation,
            container=container,
            running=running,
            started=started,
            other=other,
        )

    def stop(self, container: str) -> None:
        """Stop a container; nothing if it does not run."""
        self._call("POST", f"/containers/{container}/stop?t={STOP_S}")

    def start(self, container: str) -> None:
        """Start a container; nothing if it runs."""
        self._call("POST", f"/containers/{container}/start")

    def _call(self, method: str, path: str) -> Any:  # noqa: ANN401 - the engine's JSON
        connection = _Socket(self._config.docker_socket)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:  # noqa: PLR2004 - HTTP
            raise EngineRefusalError(body.decode(errors="replace").strip())
        return json.loads(body) if body else None


def _incarnation() -> str:
    """Another text after every start of the engine or of the node."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    pid = _engine_pid()
    started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{boot} {pid} {started}"


def _engine_pid() -> str:
    """The engine's process: by its usual pid file, else the dockerd that is in no container."""
    if PID_FILE.exists():
        return PID_FILE.read_text().strip()
    own = Path("/proc/self/ns/pid").readlink()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        if comm.read_text().strip() == "dockerd" and (comm.parent / "ns/pid").readlink() == own:
            return comm.parent.name
    raise NoEngineProcessError
