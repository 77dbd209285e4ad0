"""Rules on the head's ports: nobody else listens there, and who does is named if it can be."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING

from deploy.preflight import rows
from deploy.preflight.finding import Spot
from deploy.serving import claimed_ports, held_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from builder.manifest import ClusterManifest, Node
    from deploy.host import HostFacts, OtherContainer
    from deploy.preflight.finding import Finding
    from deploy.state import Listener, NodeState


def ports(manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """The head's two ports are free, unless our own running containers hold them."""
    if node.name != manifest.head.name:
        return
    if state.host is not None and not state.host.sockets_known:
        yield Spot(rows.PORTS, (node.name,)).unknown(
            "the node's listening sockets could not be read", "look at them there: ss -ltn"
        )
        return
    serve = manifest.serve
    ours = held_ports(state.containers)
    asked = [("port", serve.host, serve.port)]
    if len(manifest.nodes) > 1:
        # The rendezvous listens on every address, whatever address the ranks are given.
        asked.append(("master_port", IPv4Address(0), serve.master_port))
    for key, host, port in asked:
        taken = [item for item in state.listeners if item.port == port and _meets(item, host)]
        if taken and port not in ours:
            yield _taken(node, state, key, port, ", ".join(item.address for item in taken))


def _taken(node: Node, state: NodeState, key: str, port: int, addresses: str) -> Finding:
    spot = Spot(rows.PORTS, (node.name,), at=f"TCP port {port}")
    choose = f"choose another {key} in [serve] of cluster.toml"
    other = next((item for item in state.others if item.cluster and _serves(item, port)), None)
    if other is not None:
        return spot.error(
            f"the sparklock cluster {other.cluster} listens on the port",
            found=f"{addresses}, container {other.name}",
            remedy=f"inv stop --file with the cluster.toml of {other.cluster}, or {choose}",
        )
    holder = _holder(state.host, state.others, port)
    return spot.error(
        "something else listens on the port",
        found=f"{addresses}, {holder}" if holder else addresses,
        remedy=f"end it (on the node: ss -ltnp 'sport = :{port}'), or {choose}",
    )


def _holder(host: HostFacts | None, others: Sequence[OtherContainer], port: int) -> str:
    """Who listens on a port, in words; empty when only root may know."""
    found = next((item for item in host.holders if item.port == port), None) if host else None
    if found is None:
        named = next((item for item in others if _serves(item, port)), None)
        return f"container {named.name}" if named else ""
    return f"{found.process} (process {found.pid})"


def _serves(item: OtherContainer, port: int) -> bool:
    return item.running and port in claimed_ports(item.command.replace("=", " ").split())


def _meets(listener: Listener, host: IPv4Address) -> bool:
    """Whether binding to `host` would fail because of a listener on the same port."""
    address = ip_address(listener.address)
    wide = host.is_unspecified and isinstance(address, IPv4Address)
    return wide or address.is_unspecified or address == host
