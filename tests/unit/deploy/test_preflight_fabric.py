"""Preflight's rules on the fabric: interfaces, RDMA devices, GIDs, firmware, ways to the peers."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, Any

import pytest

from deploy.links import Datagrams, Ping, WayFacts, pings, way_facts, ways
from deploy.preflight import Level, preflight
from deploy.preflight.links import links
from deploy.state import GidFacts, NetdevFacts
from deploy.wanted import wanted as wanted_of
from tests.unit.deploy.clusters import LOCK_DIGEST, document, empty, lock, manifest_of, wanted
from tests.unit.deploy.preflighting import GOAL, A, B, node_with, the_one, told

if TYPE_CHECKING:
    from deploy.preflight import Finding
    from deploy.state import NodeState

V2 = GidFacts(5, "0000:0000:0000:0000:0000:ffff:c612:4d0b", "RoCE v2")
V1 = replace(V2, index=4, kind="IB/RoCE v1")


def hca_with(node: str = A, **changes: Any) -> dict[str, NodeState]:  # noqa: ANN401 - any field
    first, second = empty(GOAL)[node].hcas
    return node_with(node=node, hcas=(replace(first, **changes), second))


def netdev_with(**changes: Any) -> dict[str, NodeState]:  # noqa: ANN401 - any field
    first, second = empty(GOAL)[A].netdevs
    return node_with(netdevs=(replace(first, **changes), second))


# --- interfaces -----------------------------------------------------------------------------------


def test_an_interface_without_address_carrier_or_switched_off_is_an_error() -> None:
    assert the_one(netdev_with(addresses=())).message.found == "no IPv4 address"
    assert the_one(netdev_with(flags=("UP", "NO-CARRIER"))).message.found == "no carrier"
    assert the_one(netdev_with(flags=("BROADCAST",))).message.found == "DOWN"
    assert the_one(netdev_with(flags=())).level is Level.UNKNOWN


def test_interfaces_that_cannot_be_read_are_unknown_not_absent() -> None:
    assert {level for level, _, _ in told(node_with(netdevs=()))} == {"UNKNOWN"}


def test_another_interface_in_the_halfs_subnet_is_a_warning() -> None:
    lan = NetdevFacts("enP7s7", 1500, (IPv4Interface("198.18.77.200/24"),), ("UP", "LOWER_UP"))
    states = node_with(netdevs=(*empty(GOAL)[A].netdevs, lan))
    found = the_one(states)
    assert (found.level, found.message.found) == (Level.WARNING, "enP7s7 has 198.18.77.200/24")


# --- RDMA devices ---------------------------------------------------------------------------------


def test_a_port_without_physical_link_is_an_error_and_untold_unknown() -> None:
    assert the_one(hca_with(phys_state="2: Polling")).level is Level.ERROR
    assert the_one(hca_with(phys_state="")).level is Level.UNKNOWN


def test_a_rate_that_is_not_told_is_unknown() -> None:
    assert the_one(hca_with(rate_gbit_s=None)).level is Level.UNKNOWN


@pytest.mark.parametrize("link", [{"pcie_width": 2}, {"pcie_gt_s": 16.0}])
def test_a_slow_pcie_link_is_a_warning(link: dict[str, Any]) -> None:
    found = the_one(hca_with(**link))
    assert (found.level, found.row) == (Level.WARNING, "RDMA 1")
    assert the_one(hca_with(pcie_width=None)).level is Level.UNKNOWN
    assert told(hca_with(pcie_width=16)) == []


def test_the_gid_is_found_wherever_it_stands() -> None:
    assert told(hca_with(gids=(V1, V2))) == []


@pytest.mark.parametrize("gids", [(), (V1,), (replace(V2, gid=f"{V2.gid[:-1]}c"),)])
def test_a_device_without_a_v2_gid_of_its_address_is_an_error(gids: tuple[GidFacts, ...]) -> None:
    found = the_one(hca_with(gids=gids))
    assert (found.level, found.message.expected) == (Level.ERROR, V2.gid)


def test_a_gid_table_that_cannot_be_read_is_unknown() -> None:
    assert the_one(hca_with(gids=None)).level is Level.UNKNOWN


@pytest.mark.parametrize(("pinned", "wrong"), [("3", 0), ("2", 4), ("", 4), ("0", 4)])
def test_a_pinned_index_has_to_be_the_devices_own(pinned: str, wrong: int) -> None:
    goal = wanted(change={"container": {"env": {"NCCL_IB_GID_INDEX": pinned}}})
    found = preflight(goal, empty(goal))
    assert [item.level for item in found] == [Level.ERROR] * wrong


def test_one_listed_device_beside_another_that_is_up_is_half_the_rate() -> None:
    parsed = document()
    for node in parsed["nodes"]:
        node["fabric"]["hcas"] = node["fabric"]["hcas"][:1]
        del node["fabric"]["twin"]
    goal = wanted_of(manifest_of(parsed), lock(), LOCK_DIGEST)
    states = {name: replace(state, node=name) for name, state in empty(GOAL).items()}
    found = preflight(goal, states)
    assert [(item.level, item.message.place) for item in found] == [
        (Level.WARNING, "node spark-a, rocep1s0f0"),
        (Level.WARNING, "node spark-b, rocep1s0f0"),
    ]
    down = {
        name: replace(state, hcas=(state.hcas[0], replace(state.hcas[1], state="1: DOWN")))
        for name, state in states.items()
    }
    assert preflight(goal, down) == ()


def test_a_second_device_without_an_address_of_its_own_is_an_error() -> None:
    parsed = document()
    for node in parsed["nodes"]:
        del node["fabric"]["twin"]
    goal = wanted_of(manifest_of(parsed), lock(), LOCK_DIGEST)
    states = empty(GOAL)
    assert preflight(goal, states) == ()
    first, second = states[A].hcas
    states[A] = replace(states[A], hcas=(first, replace(second, gids=(V1,))))
    (found,) = preflight(goal, states)
    assert found.level is Level.ERROR
    assert "twin" in found.message.remedy


def test_firmware_that_differs_is_a_warning_and_an_unusual_one_a_note() -> None:
    assert [(level, row) for level, row, _ in told(hca_with(firmware="28.42.1000"))] == [
        ("WARNING", "NIC firmware"),
        ("NOTE", "NIC firmware"),
    ]
    assert the_one(hca_with(firmware="")).level is Level.UNKNOWN


def test_a_single_node_has_no_rule_on_the_fabric() -> None:
    single = wanted(nodes=1)
    states = node_with(single, hcas=(), netdevs=())
    assert told(states, single) == []


# --- ways to the peers ----------------------------------------------------------------------------

WAYS = tuple(ways(GOAL.manifest))
GOOD = WayFacts(WAYS[0], Ping(0, 0), Datagrams("answered", "answered"), ((4000, "connected"),))


def on_way(**changes: Any) -> list[Finding]:  # noqa: ANN401 - any field
    return list(links(GOAL.manifest, [replace(GOOD, **changes)]))


def test_every_half_has_a_way_in_each_direction() -> None:
    assert [(way.node, way.peer, way.half, way.payload_bytes) for way in WAYS] == [
        (A, B, 0, 8972),
        (A, B, 1, 8972),
        (B, A, 0, 8972),
        (B, A, 1, 8972),
    ]


def test_a_way_that_carries_all_has_no_finding() -> None:
    assert on_way() == []


def test_either_ping_or_packets_of_our_own_prove_the_full_size() -> None:
    no_ping = Ping(127, 127, "sh: ping: not found")
    assert on_way(ping=no_ping) == []
    assert on_way(ping=None) == []
    assert on_way(datagrams=Datagrams("no answer in time", "no answer in time")) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"ping": Ping(1, 0, "message too long, mtu=1500"), "datagrams": None},
        {"ping": None, "datagrams": Datagrams("no answer in time", "answered")},
    ],
)
def test_small_packets_alone_are_an_mtu_error(changes: dict[str, Any]) -> None:
    (found,) = on_way(**changes)
    assert found.level is Level.ERROR
    assert found.message.place == "node spark-a to spark-b, 198.18.77.12"
    assert found.message.expected == "9000 bytes, unfragmented"


def test_a_full_size_that_nothing_could_try_is_never_passed() -> None:
    forbidden = Ping(2, 2, "ping: socket: Operation not permitted")
    (found,) = on_way(ping=forbidden, datagrams=Datagrams("no answer in time", "no answer in time"))
    assert found.level is Level.UNKNOWN
    assert "Operation not permitted" in found.message.found


def test_connections_that_do_not_come_through_are_a_firewall_with_its_command() -> None:
    (found,) = on_way(connects=((4000, "connected"), (29501, "no answer in time")))
    assert found.level is Level.ERROR
    assert found.message.found == "port 29501: no answer in time"
    assert (
        "on spark-b: sudo ufw allow in on enp1s0f0np0 from 198.18.77.0/24" in found.message.remedy
    )


def test_connections_that_nobody_could_try_are_unknown() -> None:
    (found,) = on_way(datagrams=None, connects=(), problem="sh: python3: not found")
    assert (found.level, found.message.found) == (Level.UNKNOWN, "sh: python3: not found")


def test_a_peer_from_which_nothing_comes_back_is_an_error() -> None:
    (found,) = on_way(
        ping=Ping(1, 1, "100% packet loss"),
        datagrams=Datagrams("no answer in time", "no answer in time"),
        connects=((4000, "no answer in time"),),
    )
    assert found.message.what == "the peer's fabric address does not answer"


def test_a_way_that_nothing_could_try_is_unknown() -> None:
    (found,) = on_way(ping=Ping(127, 127), datagrams=None, connects=(), problem="no python3")
    assert found.level is Level.UNKNOWN


def test_what_ping_of_iputils_20221126_printed_is_read_and_a_cut_line_is_not() -> None:
    lost = (
        "PING 198.18.77.12 (198.18.77.12) from 198.18.77.11 : 8972(9000) bytes of data.  "
        "--- 198.18.77.12 ping statistics --- "
        "1 packets transmitted, 0 received, 100% packet loss, time 0ms"
    )
    forbidden = "ping: socktype: SOCK_RAW ping: socket: Operation not permitted"
    assert pings(f"a\tb\t1\t0\t{lost}\na\tc\t2\t2\t{forbidden}\nc\td\t0\n") == {
        ("a", "b"): Ping(1, 0, "1 packets transmitted, 0 received, 100% packet loss, time 0ms"),
        ("a", "c"): Ping(2, 2, forbidden),
    }


def test_what_the_nodes_program_told_is_read() -> None:
    told = {"small": "answered", "full": "answered", "tcp": {"4000": "connected"}}
    assert way_facts(WAYS[0], Ping(0, 0), told, "") == GOOD
    assert way_facts(WAYS[0], None, None, "why").problem == "why"
