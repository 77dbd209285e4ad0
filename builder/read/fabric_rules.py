"""Rules about nodes and the fabric between them.

The two halves of a Spark's port are two rails: the first half of every node meets the others' first
half in one subnet, the twins meet in another. Rails that share a subnet mean ARP flux and broken
routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from builder.read.parts import Parts
from builder.read.problems import Problem, loc_text, repeated
from builder.topology import OF_ONE_NODE

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network

    from builder.manifest import Fabric
    from builder.read.lines import Loc

Rule: TypeAlias = Callable[[Parts], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class _Half:
    """One half of a node's port; `rail` is 0 for the first half and 1 for the twin."""

    loc: Loc
    node: int
    rail: int
    fabric: Fabric
    address: IPv4Address

    @property
    def subnet(self) -> IPv4Network:
        return self.fabric.interface(self.address).network

    @property
    def text(self) -> str:
        return str(self.fabric.interface(self.address))


def _halves(parts: Parts) -> list[_Half]:
    """Every half that has an address, nodes in order."""
    return [
        _Half(
            ("nodes", node, "fabric", *(("twin",) * rail), "address"), node, rail, fabric, address
        )
        for node, fabric in sorted(parts.fabrics.items())
        for rail, address in enumerate(fabric.addresses)
    ]


def _usable_halves(parts: Parts) -> list[_Half]:
    return [half for half in _halves(parts) if _why_unusable(half) is None]


def _why_unusable(half: _Half) -> str | None:
    """Why no interface of a fabric can have the address; None if one can."""
    address, subnet = half.address, half.subnet
    reasons = {
        "unspecified": address.is_unspecified,
        "loopback: every node would talk to itself": address.is_loopback,
        "multicast": address.is_multicast,
        "reserved": address.is_reserved,
        f"the address of the subnet {subnet} itself": address == subnet.network_address,
        f"the broadcast address of {subnet}": address == subnet.broadcast_address,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def node_names_differ(parts: Parts) -> Iterator[Problem]:
    """Every node has a name of its own."""
    yield from repeated(
        ((("nodes", number, "name"), name) for number, name in parts.node_names.items()),
        "two nodes have one name",
        remedy="rename one of them",
    )


def ranks_match_nodes(parts: Parts) -> Iterator[Problem]:
    """There is one node for every rank."""
    serve, nodes = parts.serve, parts.node_count
    if serve is None or nodes == 0:
        return
    ranks = serve.tensor_parallel * serve.pipeline_parallel
    if ranks != nodes:
        yield Problem(
            ("serve", "tensor_parallel"),
            "the number of ranks is not the number of nodes",
            expected=f"tensor_parallel x pipeline_parallel = {nodes}, the number of [[nodes]]: "
            "a GB10 has one GPU",
            found=f"{serve.tensor_parallel} x {serve.pipeline_parallel} = {ranks}",
            remedy=f"list {ranks} [[nodes]], or make the product {nodes}",
        )


def several_nodes_have_a_fabric(parts: Parts) -> Iterator[Problem]:
    """Nodes that form one server know each other's address; a node script needs it even alone."""
    script = parts.serve is not None and parts.serve.node_script is not None
    if parts.node_count < 2 and not script:  # noqa: PLR2004 - one node talks to nobody
        return
    reason = "several nodes" if parts.node_count > 1 else "serve.node_script"
    for number in parts.without_fabric:
        yield Problem(
            ("nodes", number, "fabric"),
            "missing",
            expected=f"the node's address, netdev and hcas: {reason} need them",
            found="nothing",
            remedy="add [nodes.fabric] with address, netdev and hcas",
        )


def addresses_are_usable(parts: Parts) -> Iterator[Problem]:
    """Each fabric address is one that an interface can have and others can reach."""
    for half in _halves(parts):
        reason = _why_unusable(half)
        if reason is not None:
            netdev = half.fabric.netdevs[half.rail]
            yield Problem(
                half.loc,
                "no node can be reached at this address",
                expected=f"the IPv4 address that {netdev} has on the node",
                found=f"{half.address} ({reason})",
                remedy=f"write what `ip -4 address show dev {netdev}` prints on the node",
            )


def addresses_differ(parts: Parts) -> Iterator[Problem]:
    """No address is on two halves, of one node or of two."""
    yield from repeated(
        ((half.loc, half.address) for half in _halves(parts)),
        "one address on two interfaces",
        remedy="correct the one that is wrong; each half of each node's port has its own",
    )


def twins_are_in_two_subnets(parts: Parts) -> Iterator[Problem]:
    """The halves of one port are in two subnets: in one, the kernel mixes them up (ARP flux)."""
    halves = {(half.node, half.rail): half for half in _usable_halves(parts)}
    for (node, rail), twin in halves.items():
        first = halves.get((node, 0))
        if rail == 0 or first is None or first.address == twin.address:
            continue
        if first.subnet == twin.subnet:
            yield Problem(
                twin.loc,
                "both halves of the port are in one subnet",
                expected="two subnets, one for each rail",
                found=f"{first.text} and {twin.text}, both in {first.subnet}",
                remedy="move the twins of all nodes to a subnet of their own, there and here",
            )


def a_rail_is_one_subnet(parts: Parts) -> Iterator[Problem]:
    """What a cable joins is in one subnet."""
    reference: dict[int, _Half] = {}
    for half in _usable_halves(parts):
        first = reference.setdefault(half.rail, half)
        if half.subnet != first.subnet:
            yield Problem(
                half.loc,
                f"the nodes are not in one subnet on {_RAILS[half.rail]}",
                expected=f"an address in {first.subnet}, as {loc_text(first.loc)} has",
                found=half.text,
                remedy="correct the address or prefix_bits; a cable joins like halves",
            )


_RAILS: Final = ("the first rail", "the twins' rail")


def all_nodes_have_a_twin_or_none(parts: Parts) -> Iterator[Problem]:
    """A twin has another node's twin to talk to."""
    with_twin = [node for node, fabric in sorted(parts.fabrics.items()) if fabric.twin is not None]
    for node, fabric in sorted(parts.fabrics.items()):
        if with_twin and fabric.twin is None:
            yield Problem(
                ("nodes", node, "fabric"),
                "this node has no twin, and another has one",
                expected="a twin on every node, or on none",
                found=f"no twin here, one at nodes[{with_twin[0]}].fabric.twin",
                remedy="add [nodes.fabric.twin] here, or remove the others'",
            )


def devices_are_listed_once(parts: Parts) -> Iterator[Problem]:
    """The halves of a port are two interfaces, and no RDMA device is listed twice."""
    for node, fabric in parts.fabrics.items():
        loc = ("nodes", node, "fabric")
        if fabric.twin is not None and fabric.twin.netdev == fabric.netdev:
            yield Problem(
                (*loc, "twin", "netdev"),
                "both halves of the port name one interface",
                expected="the netdev of the other half, such as enP2p1s0f1np1 to enp1s0f1np1",
                found=f"{fabric.netdev} twice",
                remedy="write the twin's own netdev; `rdma link` on the node lists them",
            )
        for index, hca in enumerate(fabric.hcas):
            if hca in fabric.hcas[:index]:
                yield Problem(
                    (*loc, "hcas", index),
                    "an RDMA device is listed twice",
                    expected="each device once",
                    found=hca,
                    remedy="remove it, or write the other half's, such as roceP2p1s0f1",
                )


def no_node_is_on_its_own(parts: Parts) -> Iterator[Problem]:
    """No node's env names the loopback, on which no other node is met: the start then hangs."""
    if parts.node_count == 1:
        return
    for number, env in parts.node_envs.items():
        for name in sorted(OF_ONE_NODE.intersection(env)):
            value = str(env[name])
            if value.removeprefix("=") in {"lo", "localhost"} or value.startswith("127."):
                yield Problem(
                    ("nodes", number, "env", name),
                    "a node's own address or interface is the loopback, where no other node is",
                    expected="the node's address or netdev in [nodes.fabric]",
                    found=value,
                    remedy="remove it: it is set from [nodes.fabric]",
                )


FABRIC_RULES: Final[tuple[Rule, ...]] = (
    node_names_differ,
    ranks_match_nodes,
    several_nodes_have_a_fabric,
    addresses_are_usable,
    addresses_differ,
    twins_are_in_two_subnets,
    a_rail_is_one_subnet,
    all_nodes_have_a_twin_or_none,
    devices_are_listed_once,
    no_node_is_on_its_own,
)
