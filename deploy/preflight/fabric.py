"""Rules on the fabric's interfaces: there, up, with their address and MTU, alone in a subnet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.preflight import rows
from deploy.preflight.finding import Spot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Interface

    from builder.manifest import Fabric, Node
    from deploy.preflight.finding import Finding
    from deploy.state import NetdevFacts, NodeState

NETPLAN: Final = "/etc/netplan/40-cx7.yaml"


def netdevs(node: Node, fabric: Fabric, state: NodeState) -> Iterator[Finding]:
    """Each half's interface, as the manifest has it."""
    if not state.netdevs:
        for index, name in enumerate(fabric.netdevs):
            yield Spot(rows.fabric_row(index), (node.name,), at=name).unknown(
                "the interfaces could not be read", "install iproute2 on the node: ip address"
            )
        return
    known = {netdev.name: netdev for netdev in state.netdevs}
    for index, (name, address) in enumerate(zip(fabric.netdevs, fabric.addresses, strict=True)):
        spot = Spot(rows.fabric_row(index), (node.name,), at=name)
        interface = fabric.interface(address)
        found = known.get(name)
        if found is None or interface not in found.addresses:
            yield _no_address(spot, interface, found)
        if found is not None:
            yield from _state(spot, fabric, found)
        yield from _alone(spot, name, interface, state)


def _no_address(spot: Spot, interface: IPv4Interface, found: NetdevFacts | None) -> Finding:
    addresses = "no such interface"
    if found is not None:
        addresses = ", ".join(map(str, found.addresses)) or "no IPv4 address"
    return spot.error(
        "the interface does not have its address",
        expected=str(interface),
        found=addresses,
        remedy=f"give it the address on the node ({NETPLAN}), or correct the node's fabric in "
        "cluster.toml",
    )


def _state(spot: Spot, fabric: Fabric, found: NetdevFacts) -> Iterator[Finding]:
    if found.mtu != fabric.mtu:
        yield spot.error(
            "the interface has another MTU",
            expected=str(fabric.mtu),
            found=str(found.mtu),
            remedy="set the same on both nodes: a packet too large for one end is lost in "
            f"silence. On the node: sudo ip link set {found.name} mtu {fabric.mtu}, and {NETPLAN}",
        )
    if not found.flags:
        yield spot.unknown("whether the interface is up could not be read", "ip link on the node")
    elif "UP" not in found.flags:
        yield spot.error(
            "the interface is switched off",
            expected="UP",
            found="DOWN",
            remedy=f"on the node: sudo ip link set {found.name} up",
        )
    elif "LOWER_UP" not in found.flags:
        yield spot.error(
            "the interface has no carrier",
            expected="a link to the other node",
            found="no carrier",
            remedy="put the cable in at both ends; the other node must be switched on",
        )


def _alone(spot: Spot, name: str, interface: IPv4Interface, state: NodeState) -> Iterator[Finding]:
    """No other interface has an address in the half's subnet: replies would take either."""
    for other in state.netdevs:
        for address in other.addresses:
            if other.name != name and address.network.overlaps(interface.network):
                yield spot.warning(
                    "another interface has an address in the same subnet",
                    expected=f"{interface.network} on {name} alone",
                    found=f"{other.name} has {address}",
                    remedy="give every half, and the management network, a subnet of its own",
                )
