"""Rules on the ways between nodes: a peer answers, at full MTU, and no firewall stands between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.links import ANSWERED, CONNECTED
from deploy.preflight import rows
from deploy.preflight.finding import Spot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from builder.manifest import ClusterManifest, Node
    from deploy.links import WayFacts
    from deploy.preflight.finding import Finding


NOT_FOUND: Final = 127
"""What a shell calls a program that is not there."""


def links(manifest: ClusterManifest, tried: Iterable[WayFacts]) -> Iterator[Finding]:
    """What is wrong with the ways that were tried."""
    nodes = {node.name: node for node in manifest.nodes}
    for facts in tried:
        yield from _way(facts, nodes[facts.way.peer])


def _way(facts: WayFacts, peer: Node) -> Iterator[Finding]:
    way = facts.way
    place = f"node {way.node} to {way.peer}, {way.target}"
    spot = Spot(rows.LINKS, (way.node,), place=place)
    if not could_try(facts):
        yield spot.unknown(
            "whether the peer answers could not be tried",
            found=_said(facts),
            remedy="look at the interfaces' findings first; the node needs iputils-ping or python3",
        )
    elif not answers(facts):
        yield spot.error(
            "the peer's fabric address does not answer",
            expected="an answer to ping or a connection",
            found=_said(facts),
            remedy="look at the interfaces' findings first, then at the cable; a firewall on "
            f"{way.peer} that drops everything looks the same: {_ufw(facts, peer)}",
        )
    else:
        yield from _full_size(spot, facts)
        yield from _connects(spot, facts, peer)


def could_try(facts: WayFacts) -> bool:
    """Whether anything was tried at all: a ping that has no socket tries nothing."""
    pinged = facts.ping is not None and facts.ping.small in (0, 1)
    return pinged or bool(facts.connects)


def answers(facts: WayFacts) -> bool:
    """Whether anything came back from the peer."""
    pinged = facts.ping is not None and 0 in (facts.ping.full, facts.ping.small)
    echoed = facts.datagrams is not None and facts.datagrams.small == ANSWERED
    return pinged or echoed or any(said == CONNECTED for _, said in facts.connects)


def full_size_passes(facts: WayFacts) -> bool | None:
    """Whether packets that fill the MTU pass both ways unfragmented; None if it was not shown."""
    ping, datagrams = facts.ping, facts.datagrams
    if ping is not None and ping.full == 0:
        return True
    if datagrams is not None and datagrams.full == ANSWERED:
        return True
    lost = ping is not None and (ping.full, ping.small) == (1, 0)
    if lost or (datagrams is not None and datagrams.small == ANSWERED):
        return False
    return None


def _full_size(spot: Spot, facts: WayFacts) -> Iterator[Finding]:
    passes, way = full_size_passes(facts), facts.way
    if passes is None:
        yield spot.unknown(
            "whether packets of full size pass could not be tried",
            found=_said(facts),
            remedy=f"on {way.node}: ping -M do -s {way.payload_bytes} -I {way.source} {way.target}",
        )
    elif not passes:
        yield spot.error(
            "packets of full size do not arrive, small ones do",
            expected=f"{way.mtu} bytes, unfragmented",
            found=_said(facts),
            remedy="set the same MTU on both ends of the cable, and on a switch between them; try "
            f"it on {way.node}: ping -M do -s {way.payload_bytes} -I {way.source} {way.target}",
        )


def _connects(spot: Spot, facts: WayFacts, peer: Node) -> Iterator[Finding]:
    shut = [(port, said) for port, said in facts.connects if said != CONNECTED]
    if not facts.connects:
        yield spot.unknown(
            "whether a firewall stands between could not be tried",
            found=facts.problem,
            remedy="install python3 on both nodes",
        )
    elif shut:
        yield spot.error(
            "the peer answers, and connections to it do not come through: a firewall",
            expected="a TCP connection to a port that listens",
            found="; ".join(f"port {port}: {said}" for port, said in shut),
            remedy=f"let the fabric through on {facts.way.peer}: {_ufw(facts, peer)}",
        )


def _ufw(facts: WayFacts, peer: Node) -> str:
    assert peer.fabric is not None
    netdev = peer.fabric.netdevs[facts.way.half]
    network = peer.fabric.interface(facts.way.target).network
    return f"sudo ufw allow in on {netdev} from {network} (without ufw: sudo nft list ruleset)"


def _said(facts: WayFacts) -> str:
    """What was tried and did not come through, in words."""
    said = [facts.problem] if facts.problem else []
    if facts.ping is not None and facts.ping.small == NOT_FOUND:
        said.append("no ping program")
    elif facts.ping is not None and facts.ping.full:
        said.append(f"ping: {facts.ping.said or f'status {facts.ping.full}'}")
    if facts.datagrams is not None:
        packets = (("small", facts.datagrams.small), ("full-size", facts.datagrams.full))
        said += [f"{size} UDP packet: {word}" for size, word in packets if word != ANSWERED]
    said += [f"TCP port {port}: {word}" for port, word in facts.connects if word != CONNECTED]
    return "; ".join(said)
