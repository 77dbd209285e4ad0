"""What nodes found out about the ways to their peers over the fabric: values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from ipaddress import IPv4Address

    from builder.manifest import ClusterManifest, Node

HEADERS_BYTES: Final = 28
"""An IPv4 header without options, and that of ICMP or UDP."""

CONNECTED: Final = "connected"
ANSWERED: Final = "answered"


@dataclass(frozen=True, slots=True)
class Way:
    """From a node to a peer over one half of the fabric, counted from 0; `mtu` of both ends."""

    node: str
    peer: str
    half: int
    source: IPv4Address
    target: IPv4Address
    mtu: int

    @property
    def payload_bytes(self) -> int:
        """What an ICMP or UDP packet carries that fills the MTU."""
        return self.mtu - HEADERS_BYTES


@dataclass(frozen=True, slots=True)
class Ping:
    """How ping ended: 0 an answer, 1 none, else it could not be run; and what it said."""

    full: int
    small: int
    said: str = ""


@dataclass(frozen=True, slots=True)
class Datagrams:
    """What came of UDP packets to an echo of ours: `answered`, or in words why not."""

    full: str
    small: str


@dataclass(frozen=True, slots=True)
class WayFacts:
    """What was tried on a way; None or empty is what could not be tried.

    `connects` are TCP connections by port of the peer: `connected`, or in words why not.
    `problem` says why the node's own program did not run.
    """

    way: Way
    ping: Ping | None = None
    datagrams: Datagrams | None = None
    connects: tuple[tuple[int, str], ...] = ()
    problem: str = ""


def ways(manifest: ClusterManifest) -> Iterator[Way]:
    """Every way between two nodes that the manifest has, in both directions."""
    for node in manifest.nodes:
        for peer in manifest.nodes:
            if node is not peer:
                yield from _between(node, peer)


def _between(node: Node, peer: Node) -> Iterator[Way]:
    if node.fabric is None or peer.fabric is None:
        return
    mtu = min(node.fabric.mtu, peer.fabric.mtu)
    halves = zip(node.fabric.addresses, peer.fabric.addresses, strict=False)
    for half, (source, target) in enumerate(halves):
        yield Way(node.name, peer.name, half, source, target, mtu)


def pings(output: str) -> dict[tuple[str, str], Ping]:
    """What deploy/edges/ping.sh printed, by source and target."""
    found = {}
    for line in output.splitlines():
        words = line.split("\t")
        if len(words) == 5 and words[2].isdecimal() and words[3].isdecimal():  # noqa: PLR2004
            said = words[4].rpartition("statistics --- ")[2].strip()
            found[words[0], words[1]] = Ping(int(words[2]), int(words[3]), said)
    return found


def way_facts(
    way: Way, ping: Ping | None, tried: Mapping[str, object] | None, why: str
) -> WayFacts:
    """The facts of a way: ping's, and what the node's own program told of it, if it ran."""
    if tried is None:
        return WayFacts(way, ping, problem=why)
    connects = tried.get("tcp")
    return WayFacts(
        way,
        ping,
        Datagrams(str(tried.get("full", "")), str(tried.get("small", ""))),
        tuple((int(port), str(said)) for port, said in connects.items())
        if isinstance(connects, dict)
        else (),
    )
