"""The lab's links: the machine, one bridge per subnet in the hub, the nodes.

Namespaces are named by a process inside, so nothing lies in /run/netns, and the kernel removes
every link when the processes end.

    machine  sl-NAME-0 ---- up0   [hub: fabric0]   spark-a-0 ---- enp1s0f0np0    spark-a
             sl-NAME-1 ---- up1   [hub: fabric1]   spark-a-1 ---- enP2p1s0f0np0
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy.lab.errors import LabCommandError, LeftoverError
from deploy.lab.spec import MTU

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from deploy.lab.spec import LabSpec, NodeSpec

REMOVE_TIMEOUT_S: Final = 10.0
# Nobody needs link-local addresses outside the nodes.
_QUIET = "addrgenmode none"


def machine_lines(spec: LabSpec, hub_pid: int) -> tuple[str, ...]:
    """`ip` commands for the machine: a link into the hub per subnet, with address .1."""
    lines: list[str] = []
    for index, (link, network) in enumerate(zip(spec.uplinks, spec.networks, strict=True)):
        lines += [
            f"link add {link} type veth peer name up{index} netns {hub_pid}",
            f"link set {link} mtu {MTU} {_QUIET} up",
            f"addr add {network[1]}/{network.prefixlen} dev {link}",
        ]
    return tuple(lines)


def hub_lines(spec: LabSpec) -> tuple[str, ...]:
    """`ip` commands for the hub: the bridges, and the machine's links in them."""
    lines: list[str] = []
    for index in range(len(spec.networks)):
        lines += [
            f"link add fabric{index} type bridge",
            f"link set fabric{index} mtu {MTU} {_QUIET} up",
            f"link set up{index} mtu {MTU} {_QUIET} master fabric{index} up",
        ]
    return tuple(lines)


def port_lines(node: NodeSpec, node_pid: int) -> tuple[str, ...]:
    """`ip` commands for the hub: a node's links, the other ends already inside the node."""
    lines: list[str] = []
    for index, half in enumerate(node.halves):
        port = port_name(node, index)
        lines += [
            f"link add {port} type veth peer name {half.netdev} netns {node_pid}",
            f"link set {port} mtu {MTU} {_QUIET} master fabric{index} up",
        ]
    return tuple(lines)


def node_lines(node: NodeSpec) -> tuple[str, ...]:
    """`ip` commands for a node: its addresses."""
    lines = ["link set lo up"]
    for half in node.halves:
        lines += [
            f"link set {half.netdev} address {half.mac} mtu {MTU} up",
            f"addr add {half.address}/24 dev {half.netdev}",
        ]
    return tuple(lines)


def port_name(node: NodeSpec, half: int) -> str:
    """The hub's end of a node's link."""
    return f"{node.name}-{half}"


def connect_hub(spec: LabSpec, hub_pid: int) -> None:
    """Nothing; the machine reaches the bridges."""
    remove_links(spec.uplinks)
    run_ip(machine_lines(spec, hub_pid))
    run_ip(hub_lines(spec), namespace_of=hub_pid)


def connect_node(node: NodeSpec, hub_pid: int, node_pid: int) -> None:
    """Nothing; the node has its links and addresses."""
    remove_links({port_name(node, index) for index in range(len(node.halves))}, hub_pid)
    run_ip(port_lines(node, node_pid), namespace_of=hub_pid)
    run_ip(node_lines(node), namespace_of=node_pid)


def remove_links(names: Collection[str], namespace_of: int | None = None) -> None:
    """Nothing; none of the links is there.

    The kernel removes the links of ended processes by itself, a little later. So a deletion may
    fail because the link has just gone; what counts is that it has.
    """
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while left := sorted(link_names(namespace_of).intersection(names)):
        if time.monotonic() > deadline:
            raise LeftoverError(left, place="lab network")
        text = "".join(f"link del {link}\n" for link in left)
        argv = [*inside(namespace_of), "ip", "-force", "-batch", "-"]
        subprocess.run(argv, input=text.encode(), capture_output=True, check=False)


def link_names(namespace_of: int | None = None) -> frozenset[str]:
    """Names of all links in a process's network namespace, or in the caller's."""
    output = _run([*inside(namespace_of), "ip", "-oneline", "link"], "")
    names = (line.split(": ")[1] for line in output.splitlines())
    return frozenset(name.partition("@")[0] for name in names)


def run_ip(lines: Sequence[str], namespace_of: int | None = None) -> None:
    """Nothing; the commands were done in one go. LabCommandError names the first that failed."""
    if lines:
        text = "".join(f"{line}\n" for line in lines)
        _run([*inside(namespace_of), "ip", "-batch", "-"], text)


def inside(pid: int | None) -> tuple[str, ...]:
    """The start of a command that runs in a process's network namespace, or in the caller's."""
    return () if pid is None else ("nsenter", f"--net={Path('/proc', str(pid), 'ns/net')}", "--")


def _run(argv: list[str], text: str) -> str:
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabCommandError(argv, done.returncode, done.stderr, place="lab network")
    return done.stdout
