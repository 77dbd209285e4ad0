"""What can happen to the cables between nodes: cut, slow, lossy. All of it is done in the hub.

hub:  fabric0 --- spark-a-0 ~~~ enp1s0f0np0 of spark-a         as network.py connects it
hub:  fabric0 --- spark-a-0o === spark-a-0i [relay] spark-a-0  while it is slow or lossy
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy.lab import network
from deploy.lab.errors import LeftoverError, NodeOffError, NodeStartError
from deploy.lab.nodes import END_TIMEOUT_S, hub_record, running
from deploy.lab.processes import running_module
from deploy.lab.relay import READY, RelaySettings
from deploy.lab.spec import MTU

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from deploy.lab.spec import LabSpec, NodeSpec

RELAY: Final = "deploy.lab.relay"


def cut_between_lines(nodes: Iterable[NodeSpec], *, cut: bool) -> tuple[str, ...]:
    """`ip` commands for the hub: ports that cannot reach each other, though the machine can."""
    word = "on" if cut else "off"
    return tuple(f"link set {port} type bridge_slave isolated {word}" for port in _ports(nodes))


def cut_off_lines(node: NodeSpec, *, cut: bool) -> tuple[str, ...]:
    """`ip` commands for the hub: ports of which no frame goes anywhere, or their place again."""
    ports = enumerate(_ports([node]))
    return tuple(
        f"link set {port} nomaster" if cut else f"link set {port} master fabric{index}"
        for index, port in ports
    )


def relay_lines(node: NodeSpec) -> tuple[str, ...]:
    """`ip` commands for the hub: a link of ours between each port and its bridge."""
    lines = list(cut_off_lines(node, cut=True))
    for index, port in enumerate(_ports([node])):
        lines += [
            f"link add {port}o type veth peer name {port}i",
            f"link set {port}i mtu {MTU} addrgenmode none up",
            f"link set {port}o mtu {MTU} addrgenmode none master fabric{index} up",
        ]
    return tuple(lines)


@contextmanager
def cut_between(spec: LabSpec, *nodes: NodeSpec) -> Iterator[None]:
    """Nothing; inside the block these nodes lose all frames to each other, and no others."""
    hub = _hub_pid(spec)
    network.run_ip(cut_between_lines(nodes, cut=True), hub)
    try:
        yield
    finally:
        for node in nodes:
            mend(spec, node)


@contextmanager
def cut_off(spec: LabSpec, node: NodeSpec) -> Iterator[None]:
    """Nothing; inside the block the node loses all frames, those of the machine too."""
    network.run_ip(cut_off_lines(node, cut=True), _hub_pid(spec))
    try:
        yield
    finally:
        mend(spec, node)


@contextmanager
def relayed(spec: LabSpec, node: NodeSpec, *, delay_s: float, loss: float) -> Iterator[None]:
    """Nothing; inside the block every frame from and to the node is late, or lost by chance."""
    hub = _hub_pid(spec)
    mend(spec, node)
    network.run_ip(relay_lines(node), hub)
    process = None
    try:
        process = _start_relay(spec, node, hub, delay_s=delay_s, loss=loss)
        yield
    finally:
        if process is not None:
            process.kill()
            process.communicate()
        mend(spec, node)


def mend(spec: LabSpec, node: NodeSpec) -> None:
    """Nothing; the node's cables are whole, whatever was done to them. Nothing if it is off."""
    hub = running(hub_record(spec))
    if hub is None:
        return
    for record in running_module(RELAY, _settings_file(spec, node)):
        if not record.kill(END_TIMEOUT_S):
            raise LeftoverError([f"process {record.pid}"], place=f"lab node {node.name}")
    there = network.link_names(hub.pid)
    network.remove_links({f"{port}o" for port in _ports([node])} & there, hub.pid)
    if there.issuperset(_ports([node])):
        lines = (*cut_off_lines(node, cut=False), *cut_between_lines([node], cut=False))
        network.run_ip(lines, hub.pid)


def _start_relay(
    spec: LabSpec, node: NodeSpec, hub: int, *, delay_s: float, loss: float
) -> subprocess.Popen[str]:
    links = tuple((port, f"{port}i") for port in _ports([node]))
    file = _settings_file(spec, node)
    RelaySettings(links, delay_s, loss).write(file)
    process = subprocess.Popen(
        [*network.inside(hub), sys.executable, "-m", RELAY, str(file)],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != READY:
        _, said = process.communicate()
        raise NodeStartError(node.name, "the relay of its cables did not start", file, said)
    return process


def _settings_file(spec: LabSpec, node: NodeSpec) -> Path:
    return spec.path / f"relay-{node.name}.json"


def _ports(nodes: Iterable[NodeSpec]) -> list[str]:
    return [network.port_name(node, index) for node in nodes for index in range(len(node.halves))]


def _hub_pid(spec: LabSpec) -> int:
    hub = running(hub_record(spec))
    if hub is None:
        raise NodeOffError(spec.nodes[0].name)
    return hub.pid
