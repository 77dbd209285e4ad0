from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface

import pytest

from tests.unit.verify import samples
from verify.judge import fabric as judge
from verify.parse import Gid, Netdev, RdmaPort

PORTS = samples.expected().nodes[1].ports
PORT, TWIN = PORTS
GID = Gid(3, "RoCE v2", "enp1s0f1np1", IPv4Address("192.168.200.12"))
V1 = replace(GID, index=2, kind="IB/RoCE v1")
GOOD = RdmaPort(
    hca="rocep1s0f1",
    description="spark-b mlx5_1",
    state="4: ACTIVE",
    phys_state="5: LinkUp",
    rate_gbit_s=200,
    link_layer="Ethernet",
    firmware="28.45.4028",
    gids=(V1, GID),
)
ABSENT = RdmaPort("rocep1s0f1", "", "", "", None, "", "", ())
NETDEV = Netdev(
    "enp1s0f1np1", 9000, "UP", carrier=True, addresses=(IPv4Interface("192.168.200.12/24"),)
)
TWIN_NETDEV = replace(NETDEV, name="enP2p1s0f1np1", addresses=(IPv4Interface("192.168.201.12/24"),))


def test_a_healthy_port_passes_everything() -> None:
    assert judge.port_is_active(GOOD).holds
    assert judge.link_is_up(GOOD).holds
    assert judge.link_layer(GOOD).holds
    assert judge.rate(PORT, GOOD).holds
    assert judge.gid(PORT, GOOD).holds
    assert judge.netdev_belongs(PORT, ["enp1s0f1np1"]).holds
    assert judge.netdev_is_up(PORT, NETDEV).holds
    assert judge.mtu(PORT, NETDEV).holds
    assert judge.address(PORT, NETDEV).holds


def test_a_stand_in_is_told_from_a_device_by_the_evidence() -> None:
    verdict = judge.port_is_active(replace(GOOD, description="stand-in"))
    assert verdict.evidence[0] == "rocep1s0f1 says of itself: stand-in"


def test_an_absent_device_passes_nothing() -> None:
    assert judge.port_is_active(ABSENT).findings
    assert judge.link_is_up(ABSENT).findings
    assert judge.link_layer(ABSENT).findings
    assert judge.rate(PORT, ABSENT).findings
    assert judge.gid(PORT, ABSENT).findings
    assert judge.netdev_belongs(PORT, []).findings


def test_an_absent_interface_passes_nothing() -> None:
    assert judge.netdev_is_up(PORT, None).findings
    assert judge.mtu(PORT, None).findings
    assert judge.address(PORT, None).findings


@pytest.mark.parametrize("state", ["1: DOWN", "2: INIT", "3: ARMED", "5: ACTIVE_DEFER"])
def test_a_port_in_another_state_is_found_and_only_as_that(state: str) -> None:
    down = replace(GOOD, state=state)
    (finding,) = judge.port_is_active(down).findings
    assert finding.found == state.partition(": ")[2]
    assert judge.link_is_up(down).holds


@pytest.mark.parametrize("state", ["2: Polling", "3: Disabled"])
def test_a_link_that_is_not_up_is_found(state: str) -> None:
    assert judge.link_is_up(replace(GOOD, phys_state=state)).findings


def test_infiniband_instead_of_ethernet_is_found() -> None:
    assert judge.link_layer(replace(GOOD, link_layer="InfiniBand")).findings


@pytest.mark.parametrize(("rate", "holds"), [(400, True), (200, True), (100, False), (0, False)])
def test_a_rate_must_reach_the_wanted_one(rate: int, *, holds: bool) -> None:
    assert judge.rate(PORT, replace(GOOD, rate_gbit_s=rate)).holds is holds


def test_another_netdev_is_found() -> None:
    assert judge.netdev_belongs(PORT, ["enp1s0f0np0"]).findings


def test_an_interface_that_is_down_or_without_carrier_is_found() -> None:
    assert judge.netdev_is_up(PORT, replace(NETDEV, operstate="DOWN")).findings
    assert judge.netdev_is_up(PORT, replace(NETDEV, carrier=False)).findings


@pytest.mark.parametrize("mtu", [1500, 9216])
def test_another_mtu_is_found(mtu: int) -> None:
    assert judge.mtu(PORT, replace(NETDEV, mtu=mtu)).findings


@pytest.mark.parametrize("address", ["192.168.200.13/24", "192.168.200.12/16"])
def test_another_address_or_prefix_is_found(address: str) -> None:
    netdev = replace(NETDEV, addresses=(IPv4Interface(address),))
    assert judge.address(PORT, netdev).findings


def test_a_further_address_does_no_harm() -> None:
    more = replace(NETDEV, addresses=(IPv4Interface("10.0.0.1/8"), *NETDEV.addresses))
    assert judge.address(PORT, more).holds


@pytest.mark.parametrize("index", [0, 3, 5, 254])
def test_the_gid_index_is_reported_wherever_it_is(index: int) -> None:
    verdict = judge.gid(PORT, replace(GOOD, gids=(replace(GID, index=index),)))
    assert verdict.holds
    assert f"index {index}:" in verdict.evidence[0]


@pytest.mark.parametrize(
    "gid",
    [
        V1,
        replace(GID, kind=""),
        replace(GID, netdev="enP2p1s0f1np1"),
        replace(GID, address=None),
        replace(GID, address=IPv4Address("192.168.200.11")),
    ],
)
def test_a_gid_of_another_type_netdev_or_address_is_not_enough(gid: Gid) -> None:
    assert judge.gid(PORT, replace(GOOD, gids=(gid,))).findings


def netdevs(*addresses: str) -> dict[str, Netdev]:
    found = tuple(IPv4Interface(address) for address in addresses)
    return {NETDEV.name: NETDEV, TWIN.netdev: replace(TWIN_NETDEV, addresses=found)}


def test_halves_in_subnets_of_their_own_are_accepted() -> None:
    assert judge.subnets_differ(PORTS, netdevs("192.168.201.12/24")).holds


@pytest.mark.parametrize("address", ["192.168.200.99/24", "192.168.200.99/30", "192.168.0.1/16"])
def test_halves_in_one_subnet_are_found_also_when_one_contains_the_other(address: str) -> None:
    (finding,) = judge.subnets_differ(PORTS, netdevs(address)).findings
    assert TWIN.netdev in finding.what


def test_a_half_without_a_subnet_is_found() -> None:
    assert judge.subnets_differ(PORTS, netdevs()).findings
    assert judge.subnets_differ(PORTS, {NETDEV.name: NETDEV}).findings


def test_a_single_device_has_no_second_subnet_to_show() -> None:
    assert judge.subnets_differ(PORTS[:1], netdevs()).not_shown


def test_firmware_is_compared_device_by_device() -> None:
    twin = replace(GOOD, hca="roceP2p1s0f1", firmware="28.45.1000")
    assert judge.firmware_agrees({"a": [GOOD, twin], "b": [GOOD, twin]}).holds
    assert judge.firmware_agrees({"a": [GOOD, twin], "b": [GOOD, GOOD]}).findings


def test_firmware_that_is_not_shown_is_not_equal() -> None:
    silent = replace(GOOD, firmware="")
    assert judge.firmware_agrees({"a": [silent], "b": [silent]}).findings


def test_a_single_node_has_no_other_firmware_to_show() -> None:
    assert judge.firmware_agrees({"a": [GOOD]}).not_shown


def test_a_cluster_without_devices_is_not_shown() -> None:
    assert judge.firmware_agrees({"a": [], "b": []}).not_shown
