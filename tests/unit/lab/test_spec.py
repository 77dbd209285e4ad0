"""What a lab is, derived from a few fields."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from deploy.lab import network
from deploy.lab.errors import LabSpecError
from deploy.lab.spec import MAX_NODES, Half, LabSpec

SPEC = LabSpec(root=Path("/repository"))


def test_the_default_lab_is_the_pair_of_the_embedded_manifest() -> None:
    assert [(node.name, str(node.address)) for node in SPEC.nodes] == [
        ("spark-a", "198.18.77.11"),
        ("spark-b", "198.18.77.12"),
    ]
    assert [str(half.address) for half in SPEC.nodes[1].halves] == ["198.18.77.12", "198.18.78.12"]
    assert SPEC.ssh_config == Path("/repository/.sparklock/lab/ssh_config")


def test_addresses_and_names_are_unique_in_the_largest_lab() -> None:
    nodes = replace(SPEC, node_count=MAX_NODES).nodes
    halves = [half for node in nodes for half in node.halves]
    assert len({node.name for node in nodes}) == MAX_NODES
    assert len({half.address for half in halves}) == 2 * MAX_NODES
    assert len({half.mac for half in halves}) == 2 * MAX_NODES


def test_every_link_name_fits_the_kernel_also_for_the_longest_lab_name() -> None:
    spec = replace(SPEC, name="x" * 9, node_count=MAX_NODES)
    ports = [network.port_name(node, half) for node in spec.nodes for half in (0, 1)]
    devices = [half.netdev for half in spec.nodes[0].halves]
    assert max(map(len, (*spec.uplinks, *ports, *devices))) <= 15


def test_the_link_local_gid_is_the_eui_64_of_the_mac_address() -> None:
    # RFC 4291, appendix A: ff:fe in the middle, the universal bit inverted
    half = Half("enp1s0f0np0", "rocep1s0f0", IPv4Address("198.18.77.11"))
    assert half.mac == "02:00:c6:12:4d:0b"
    assert half.link_local_gid == "fe80:0000:0000:0000:0000:c6ff:fe12:4d0b"
    assert half.ipv4_gid == "0000:0000:0000:0000:0000:ffff:c612:4d0b"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Lab"),
        ("name", "tenletters"),
        ("node_count", 0),
        ("node_count", MAX_NODES + 1),
        ("subnets", (77, 77)),
        ("subnets", (77, 256)),
        ("root", Path("relative")),
        ("engines", ("containerd-store",)),
    ],
)
def test_a_lab_that_cannot_be_is_refused(field: str, value: object) -> None:
    with pytest.raises(LabSpecError) as caught:
        replace(SPEC, **{field: value})  # type: ignore[arg-type]  # each value is of its field's type
    assert caught.value.exit_code == 5


def test_an_unknown_node_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(LabSpecError, match="spark-a, spark-b"):
        SPEC.node("spark-c")
