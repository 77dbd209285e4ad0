"""The links of a lab, as `ip` commands."""

from __future__ import annotations

from pathlib import Path

from deploy.lab import network
from deploy.lab.spec import LabSpec

SPEC = LabSpec(root=Path("/repository"))


def test_the_machine_gets_only_its_own_ends_of_the_uplinks() -> None:
    lines = network.machine_lines(SPEC, hub_pid=41)
    assert lines[0] == "link add sl-lab-0 type veth peer name up0 netns 41"
    assert lines[2] == "addr add 198.18.77.1/24 dev sl-lab-0"
    assert not any("bridge" in line for line in lines)


def test_a_node_has_one_link_on_the_bridge_of_each_half() -> None:
    lines = network.port_lines(SPEC.nodes[1], node_pid=42)
    assert lines == (
        "link add spark-b-0 type veth peer name enp1s0f0np0 netns 42",
        "link set spark-b-0 mtu 9000 addrgenmode none master fabric0 up",
        "link add spark-b-1 type veth peer name enP2p1s0f0np0 netns 42",
        "link set spark-b-1 mtu 9000 addrgenmode none master fabric1 up",
    )
