"""How long nobody is answered while a changed hybrid is deployed."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from deploy.lab.control import LabNode
from tests.bench.errors import NoCompletionError
from tests.bench.measure import alternate, inv, output_of
from tests.bench.result import Limit, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.workplace import Cluster, Workplace

ROUNDS: Final = 5
PORT: Final = 8000
PATIENCE_S: Final = 60
POLL_S: Final = 0.01
ASKED: Final = {"prompt": "a", "max_tokens": 1, "temperature": 0}


def measure(place: Workplace) -> Iterator[Result]:
    """Gaps of deploys, and between them starts of the same containers by the engines alone."""
    cluster = place.pair()
    clients = _Client(str(place.lab.nodes[0].address))

    def deploy_s(number: int) -> float:
        cluster.with_template(f"{{# gap {number} {time.time_ns()} #}}\n")
        argv = inv("deploy", "--json", "--file", str(cluster.file))
        with clients.asking():
            output_of(argv, cwd=place.root)
        return clients.longest_gap_s

    def start_s(_round: int) -> float:
        _stop(place, cluster)
        started = time.perf_counter()
        _start(place, cluster)
        clients.wait_for_answer()
        return time.perf_counter() - started

    ours, theirs = alternate((deploy_s, start_s), ROUNDS)
    yield Result(
        name="gap",
        what="longest time without an answered completion while a changed hybrid is deployed",
        yardstick="docker start of both ranks until a completion is answered",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("difference", 2),
        note="the gap also has the old ranks' orderly end; the server is the lab's stand-in",
    )


class _Client:
    """Somebody who asks the server for completions, again and again."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ended = threading.Event()
        self._answered: list[float] = []

    @property
    def longest_gap_s(self) -> float:
        """The longest time between two answers that followed each other."""
        return max(b - a for a, b in zip(self._answered, self._answered[1:], strict=False))

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Inside the block it is asked all the time, from an answer before to an answer after."""
        self._ended.clear()
        self.wait_for_answer()
        self._answered = [time.perf_counter()]
        asking = threading.Thread(target=self._ask_on)
        asking.start()
        try:
            yield
            self.wait_for_answer()
        finally:
            self._ended.set()
            asking.join()
        self._answered.append(time.perf_counter())

    def wait_for_answer(self) -> None:
        """Nothing, once a completion is answered; NoCompletionError when none is in time."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_answered():
            if time.monotonic() > deadline:
                raise NoCompletionError(self._address, PATIENCE_S)
            time.sleep(POLL_S)

    def _ask_on(self) -> None:
        while not self._ended.wait(POLL_S):
            if self._is_answered():
                self._answered.append(time.perf_counter())

    def _is_answered(self) -> bool:
        connection = http.client.HTTPConnection(self._address, PORT, timeout=2)
        try:
            connection.request(
                "POST", "/v1/completions", json.dumps(ASKED), {"Content-Type": "application/json"}
            )
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _stop(place: Workplace, cluster: Cluster) -> None:
    for socket, container in _running(place, cluster):
        output_of(("docker", "--host", socket, "stop", container))


def _start(place: Workplace, cluster: Cluster) -> None:
    """Start the newest ranks at the same time, by the engines' sockets and without ssh."""
    newest = _newest(place, cluster)
    processes = [
        subprocess.Popen(("docker", "--host", socket, "start", name), stdout=subprocess.DEVNULL)
        for socket, name in newest
    ]
    for process in processes:
        process.wait()


def _running(place: Workplace, cluster: Cluster) -> list[tuple[str, str]]:
    return _listed(place, cluster, "--filter", "status=running")


def _newest(place: Workplace, cluster: Cluster) -> list[tuple[str, str]]:
    """Each node's current container, with its engine's socket: the one with a final name."""
    return [item for item in _listed(place, cluster, "--all") if "." not in item[1]]


def _listed(place: Workplace, cluster: Cluster, *options: str) -> list[tuple[str, str]]:
    name = cluster.folder.name
    found = []
    for node in place.lab.nodes:
        socket = f"unix://{LabNode(place.lab, node.name).root}/run/docker.sock"
        listing = ("docker", "--host", socket, "ps", "--format", "{{.Names}}", *options)
        lines = output_of((*listing, "--filter", f"label=io.sparklock.cluster={name}"))
        found += [(socket, line) for line in lines.split()]
    return found
