"""A node, its engine or its network fails at a step of a deploy."""

from __future__ import annotations

import shutil
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.faults.conftest import Case, at
from tests.faults.pieces import at_every
from tests.integration.deploy.conftest import NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from deploy.lab.control import LabNode
    from tests.faults.pair import Pair

    Fault: TypeAlias = Callable[[LabNode, str], AbstractContextManager[object]]

pytestmark = [pytest.mark.lab, pytest.mark.faults]


def done(change: Callable[[LabNode], None]) -> Fault:
    """A fault that needs no undoing: `lab_up` mends it."""

    def fault(node: LabNode, _cluster: str) -> AbstractContextManager[object]:
        change(node)
        return nullcontext()

    return fault


@contextmanager
def engine_down(node: LabNode, *, crash: bool) -> Iterator[None]:
    """Its start is no `lab_up`, which would restart the node, and end what still serves."""
    node.stop_engine(crash=crash)
    try:
        yield
    finally:
        node.start_engine()


@contextmanager
def sshd_down(node: LabNode, _cluster: str) -> Iterator[None]:
    node.stop_sshd()
    try:
        yield
    finally:
        node.start_sshd()


def cut_from_peer(node: LabNode, _cluster: str) -> AbstractContextManager[object]:
    return node.cut_from(*(name for name in NODES if name != node.name))


def container_removed(node: LabNode, cluster: str) -> AbstractContextManager[object]:
    """By hand: the newest one, whether it is on trial or serves."""
    listed = node.run(
        ["docker", "ps", "--all", "--quiet", "--filter", f"label=io.sparklock.cluster={cluster}"]
    )
    for container in listed.split()[:1]:  # newest first
        node.remove_container(container)
    return nullcontext()


@contextmanager
def model_disk_full(node: LabNode, cluster: str) -> Iterator[None]:
    folder = f"/srv/models/{cluster}"
    with node.small_disk(folder, 4), node.filled(folder):
        yield


@contextmanager
def engine_disk_full(node: LabNode, _cluster: str) -> Iterator[None]:
    with node.small_disk("/var/lib/docker", 64), node.filled("/var/lib/docker"):
        yield


@contextmanager
def clock_wrong(node: LabNode, _cluster: str) -> Iterator[None]:
    """A stand-in: clocks are not the namespaces', so the node's `date` is a day ahead instead.

    The engine's own times, such as a container's end, stay right.
    """
    shutil.copy("/usr/bin/date", node.root / "run/true-date")
    shim = node.root / "run/date"
    shim.write_text('#!/bin/sh\nexec /run/true-date --date="1 day" "$@"\n')
    shim.chmod(0o755)
    node.run(["mount", "--bind", "/run/date", "/usr/bin/date"])
    try:
        yield
    finally:
        node.run(["umount", "/usr/bin/date"])


FAULTS: Final[Mapping[str, Fault]] = {
    "engine stopped": lambda node, _: engine_down(node, crash=False),
    "engine killed": lambda node, _: engine_down(node, crash=True),
    "engine restarted": done(lambda node: node.restart_engine()),
    "power cut": done(lambda node: node.power_off()),
    "power cut and back": done(lambda node: node.power_on()),
    "sshd stopped": sshd_down,
    "ssh stalls": lambda node, _: node.stalled_sshd(),
    "link between nodes cut": cut_from_peer,
    "node cut off": lambda node, _: node.cut_off(),
    "link slow": lambda node, _: node.slow_link(delay_s=0.05),
    "link loses packets": lambda node, _: node.slow_link(loss=0.05),
    "container removed": container_removed,
    "clock a day ahead": clock_wrong,
    "disk of the model full": model_disk_full,
    "disk of the engine full": engine_disk_full,
}
SHORT: Final = (  # one of each kind, spread over the steps and the nodes
    ("engine killed", "spark-a", "> stop the old"),
    ("engine restarted", "spark-b", "> start the head"),
    ("power cut and back", "spark-a", "> accept"),
    ("link between nodes cut", "spark-b", "> start the workers"),
    ("link loses packets", "spark-b", "> bring"),
    ("clock a day ahead", "spark-b", "> look"),
    ("container removed", "spark-a", "> start the workers"),
    ("disk of the model full", "spark-b", "> bring"),
)


def inject(pair: Pair, fault: str, name: str, step: str) -> None:
    case = Case(pair, f"{fault}, {name}")
    run = case.run(step)
    with FAULTS[fault](pair.cluster.node(name), pair.name):
        run.release()
        status = run.end()
    case.settle(run, status)


@pytest.mark.parametrize(("fault", "name", "begin"), SHORT)
def test_a_fault_at_a_step(
    pair: Pair, steps: tuple[str, ...], fault: str, name: str, begin: str
) -> None:
    inject(pair, fault, name, at(steps, begin))


@pytest.mark.long
@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_every_step(pair: Pair, steps: tuple[str, ...], fault: str, name: str) -> None:
    at_every(pair, steps, partial(inject, pair, fault, name))
