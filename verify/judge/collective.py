"""Do the ranks talk to each other, over the fabric, by RDMA where they should?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from verify.processes import titled_sockets
from verify.verdict import Finding, Verdict, not_shown, same, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.expected import ExpectedNode, ExpectedPort
    from verify.nccl import NcclLog
    from verify.processes import Inside
    from verify.shape import Demand
    from verify.traffic import Moved, Way

_NO_NCCL: Final = "not shown by this run: the container's log has no line of NCCL's"
_RDMA_REMEDY: Final = (
    "see the fabric checks, /dev/infiniband and the memlock limit; NCCL_NET=IB makes a start "
    "without RDMA fail instead of taking TCP"
)

_HALF: Final = (
    "NCCL_IB_HCA must name both halves of the port, and each needs an address of its own; "
    f"{_RDMA_REMEDY}"
)
_NO_ALL_REDUCE: Final = "no tensor parallelism, so no all-reduce"
_RDMA: Final[tuple[Way, ...]] = ("rdma_sent", "rdma_received")
_NETDEV: Final[tuple[Way, ...]] = ("netdev_sent", "netdev_received")


def nccl_transport(log: NcclLog) -> Verdict:
    """Whether NCCL itself says that it uses RDMA, and nowhere that it uses sockets."""
    if log.lines == 0:
        return not_shown(_NO_NCCL)
    evidence = Verdict(evidence=(f"NCCL {log.version or 'of unknown version'}",))
    verdict = same("transport", expected="IB", found=log.transport, remedy=_RDMA_REMEDY)
    return together([evidence, verdict])


def nccl_devices(ports: Sequence[ExpectedPort], log: NcclLog) -> Verdict:
    """Whether NCCL lists exactly the node's RDMA devices; one of two means half of the cable."""
    if log.lines == 0:
        return not_shown(_NO_NCCL)
    return same(
        "RDMA devices NCCL listed", expected=_names(ports), found=_joined(log.hcas), remedy=_HALF
    )


def nccl_channels(ports: Sequence[ExpectedPort], log: NcclLog) -> Verdict:
    """Whether NCCL's channels go by every RDMA device of the node, once it has told of any."""
    if log.used is None:
        return not_shown("not shown by this run: the container's log has no line of a channel")
    return same(
        "RDMA devices NCCL's channels go by",
        expected=_names(ports),
        found=_joined(log.used),
        remedy=_HALF,
    )


def _names(ports: Sequence[ExpectedPort]) -> str:
    return _joined(sorted(port.hca for port in ports))


def _joined(names: Sequence[str]) -> str:
    return " ".join(names) or "none"


def connections(node: ExpectedNode, inside: Inside) -> Verdict:
    """Whether each of vLLM's processes here has a TCP connection to each peer's fabric address.

    The workers of all ranks meet there, and the head's engine core has every worker on its queue.
    """
    if not node.peers:
        return not_shown("the cluster has a single node")
    own = [item for item in inside.connections if item.local in node.addresses]
    sockets = titled_sockets(inside.processes, node.title_prefix)
    return together(
        _connected(
            title,
            peer,
            sum(
                item.remote in addresses and item.inode in sockets.get(title, frozenset())
                for item in own
            ),
        )
        for title in node.titles
        for peer, addresses in node.peers.items()
    )


def _connected(title: str, peer: str, count: int) -> Verdict:
    finding = Finding(
        f"{title} is not connected to {peer} over the fabric",
        "an established connection between the two fabric addresses",
        "none of this process",
        "VLLM_HOST_IP and GLOO_SOCKET_IFNAME must name the fabric on every node; a firewall must "
        "let all TCP between the fabric addresses pass",
    )
    return Verdict(
        evidence=(f"{count} connections of {title} to {peer}",),
        findings=() if count else (finding,),
    )


def rdma_carries(
    port: ExpectedPort, moved: Moved, demand: Demand | None, halves: int, *, uses_rdma: bool
) -> Verdict:
    """Whether the device itself moved at least half of its share of the all-reduces, both ways.

    `halves` are the node's devices, which share a message between them. Half is asked for, since a
    server may quantise what it sends. A single token's message may take one device alone, so for a
    real model only the prompt's count; for a tiny one, the tokens that the longer completion has
    beyond the short one.
    """
    evidence = f"{port.hca}, RDMA: {moved.text(_RDMA)}"
    if not uses_rdma:
        return not_shown("[container] devices gives the ranks no RDMA device", evidence)
    if demand is None:
        return not_shown(_NO_ALL_REDUCE, evidence)
    wanted_bytes = (demand.long - demand.short if demand.tiny else demand.prompt) // 2 // halves
    sent, received = (moved.judged(way, tiny=demand.tiny) for way in _RDMA)
    finding = Finding(
        f"{port.hca} carried less than its share of the all-reduces",
        f"at least {wanted_bytes} bytes each way {_judged_part(demand)}",
        f"{sent} bytes sent, {received} received{_unread(moved)}",
        _RDMA_REMEDY,
    )
    enough = 0 < wanted_bytes <= min(sent, received)
    return Verdict(
        evidence=(evidence, f"wanted: {wanted_bytes} bytes each way {_judged_part(demand)}"),
        findings=() if enough else (finding,),
    )


def all_reduces_cross(
    moved: Mapping[str, Moved], demand: Demand | None, *, uses_rdma: bool
) -> Verdict:
    """Whether the node sent the all-reduces of a completion: by RDMA if it has that, else by TCP.

    `moved` is by netdev. This is what tells two ranks that share a model from one that has it
    all: a server that does not split its layers has nothing to send.
    """
    if demand is None:
        return not_shown(_NO_ALL_REDUCE)
    way: Way = "rdma_sent" if uses_rdma else "netdev_sent"
    sent = sum(item.judged(way, tiny=demand.tiny) for item in moved.values())
    wanted_bytes = _wanted(demand)
    finding = Finding(
        "the fabric carried less than tensor parallelism needs for a completion",
        f"at least {wanted_bytes} bytes sent {_judged_part(demand)}",
        f"{sent} bytes",
        "the ranks may talk over another network: compare VLLM_HOST_IP, NCCL_SOCKET_IFNAME and "
        "GLOO_SOCKET_IFNAME with nodes[].fabric; or no tensor parallelism runs at all",
    )
    evidence = (
        *(f"{netdev}, sent: {item.text((way,))}" for netdev, item in moved.items()),
        f"wanted: {wanted_bytes} bytes {_judged_part(demand)}",
    )
    enough = 0 < wanted_bytes <= sent
    return Verdict(evidence=evidence, findings=() if enough else (finding,))


def netdev_is_quiet(
    port: ExpectedPort, moved: Moved, demand: Demand | None, *, uses_rdma: bool
) -> Verdict:
    """Whether TCP did not carry the all-reduces in RDMA's place: it is in the netdev's counters.

    RDMA is not in them, since the kernel never sees those packets.
    """
    evidence = f"{port.netdev}: {moved.text(_NETDEV)}"
    if not uses_rdma:
        return not_shown("[container] devices gives the ranks no RDMA device", evidence)
    if demand is None:
        return not_shown(_NO_ALL_REDUCE, evidence)
    limit_bytes = _wanted(demand)
    sent, received = (moved.judged(way, tiny=demand.tiny) for way in _NETDEV)
    finding = Finding(
        f"{port.netdev} carried by TCP what RDMA should",
        f"less than {limit_bytes} bytes each way {_judged_part(demand)}",
        f"{sent} bytes sent, {received} received",
        f"{_RDMA_REMEDY}; if something else used the interface meanwhile, verify again",
    )
    return Verdict(
        evidence=(evidence,), findings=() if max(sent, received) < limit_bytes else (finding,)
    )


def rdma_errors(port: ExpectedPort, moved: Moved) -> Verdict:
    """Whether no error counter of the device rose while the server answered."""
    shown = [part.errors for part in (moved.short, moved.long) if part.errors]
    if not shown:
        return not_shown(f"{port.hca} shows no error counter")
    rose = {name: sum(part.get(name, 0) for part in shown) for name in shown[-1]}
    finding = Finding(
        f"error counters of {port.hca} rose during a completion",
        "none",
        ", ".join(f"{name.rpartition('/')[2]} by {count}" for name, count in rose.items() if count),
        "check the cable, and flow control (PFC, ECN) if a switch is between the nodes; then "
        "`inv verify --bandwidth`",
    )
    return Verdict(
        evidence=(f"{len(rose)} error counters of {port.hca}, {sum(rose.values())} errors",),
        findings=(finding,) if any(rose.values()) else (),
    )


def _wanted(demand: Demand) -> int:
    """Half of what the judged part of the completions needs; see `rdma_carries`."""
    return (demand.long - demand.short if demand.tiny else demand.long) // 2


def _judged_part(demand: Demand) -> str:
    return "for what one completion is longer than another" if demand.tiny else "for a completion"


def _unread(moved: Moved) -> str:
    paths = {*moved.short.unread, *moved.long.unread}
    return f"; not readable: {', '.join(sorted(paths))}" if paths else ""
