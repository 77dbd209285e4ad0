"""Do the ranks talk to each other, over the fabric, by RDMA where they should?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from verify.parse import PORT_COUNTER_UNIT_BYTES
from verify.verdict import Finding, Verdict, not_shown, same, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.expected import ExpectedCluster, ExpectedNode, ExpectedPort
    from verify.nccl import NcclLog
    from verify.parse import ModelShape
    from verify.processes import Inside

_NO_NCCL: Final = "not shown by this run: the container's log has no line of NCCL's"
_RDMA_REMEDY: Final = (
    "see the fabric checks, /dev/infiniband and the memlock limit; NCCL_NET=IB makes a start "
    "without RDMA fail instead of taking TCP"
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one half of a node's cable moved while the server answered a request."""

    rdma_sent: int
    rdma_received: int
    netdev_sent: int


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
        "RDMA devices NCCL listed",
        expected=" ".join(sorted(port.hca for port in ports)),
        found=" ".join(log.hcas) or "none",
        remedy=_RDMA_REMEDY,
    )


def connections(node: ExpectedNode, inside: Inside) -> Verdict:
    """Whether a process of the container has a TCP connection to each peer's fabric address."""
    if not node.peers:
        return not_shown("the cluster has a single node")
    own = [item for item in inside.connections if item.local in node.addresses]
    return together(
        _connected(name, sum(item.remote in addresses for item in own))
        for name, addresses in node.peers.items()
    )


def _connected(peer: str, count: int) -> Verdict:
    finding = Finding(
        f"no process of the container is connected to {peer} over the fabric",
        "an established connection between the two fabric addresses",
        "none",
        "VLLM_HOST_IP and GLOO_SOCKET_IFNAME must name the fabric on every node; a firewall must "
        "let all TCP between the fabric addresses pass",
    )
    return Verdict(
        evidence=(f"{count} connections to {peer}",), findings=() if count else (finding,)
    )


def rdma_carries(port: ExpectedPort, traffic: Traffic, *, uses_rdma: bool) -> Verdict:
    """Whether the device's own counters grew both ways while the server answered."""
    evidence = f"{port.hca}: {traffic.rdma_sent} bytes sent, {traffic.rdma_received} received"
    if not uses_rdma:
        return not_shown("[container] devices gives the ranks no RDMA device", evidence)
    finding = Finding(
        f"{port.hca} carried nothing during a completion",
        "bytes in both directions",
        f"{traffic.rdma_sent} sent, {traffic.rdma_received} received",
        _RDMA_REMEDY,
    )
    carried = traffic.rdma_sent > 0 and traffic.rdma_received > 0
    return Verdict(evidence=(evidence,), findings=() if carried else (finding,))


def all_reduce_bytes(cluster: ExpectedCluster, shape: ModelShape, tokens: int) -> int:
    """Bytes that each rank must send at least for so many tokens; 0 without tensor parallelism.

    Two all-reduces for each layer of the rank's stage, each of one hidden vector a token in 16 bit:
    a ring of two sends the whole of it, a longer ring more. Half is asked for, since a server may
    quantise what it sends.
    """
    if cluster.tensor_parallel == 1:
        return 0
    layers = shape.layers // cluster.pipeline_parallel
    return 2 * layers * shape.hidden * 2 * tokens // 2


def all_reduces_cross(traffic: Mapping[str, Traffic], wanted_bytes: int) -> Verdict:
    """Whether the node sent the all-reduces of a completion over its fabric, by RDMA or TCP.

    `traffic` is by netdev. This is what tells two ranks that share a model from one that has it
    all: a server that does not split its layers has nothing to send.
    """
    if wanted_bytes == 0:
        return not_shown("no tensor parallelism, or no token")
    sent = sum(item.rdma_sent + item.netdev_sent for item in traffic.values())
    finding = Finding(
        "the fabric carried less than tensor parallelism needs for a completion",
        f"at least {wanted_bytes} bytes sent",
        f"{sent} bytes",
        "the ranks may talk over another network: compare VLLM_HOST_IP, NCCL_SOCKET_IFNAME and "
        "GLOO_SOCKET_IFNAME with nodes[].fabric; or no tensor parallelism runs at all",
    )
    evidence = (
        *(
            f"{netdev}: {item.rdma_sent} bytes sent by RDMA, {item.netdev_sent} by the netdev"
            for netdev, item in traffic.items()
        ),
        f"wanted: {wanted_bytes} bytes",
    )
    return Verdict(evidence=evidence, findings=() if sent >= wanted_bytes else (finding,))


def traffic_of(port: ExpectedPort, before: Mapping[str, int], after: Mapping[str, int]) -> Traffic:
    """The traffic of one half between two readings of `counter_paths`."""
    grown = [after.get(path, 0) - before.get(path, 0) for path in counter_paths(port)]
    unit = PORT_COUNTER_UNIT_BYTES
    return Traffic(grown[0] * unit, grown[1] * unit, grown[2])


def counter_paths(port: ExpectedPort) -> tuple[str, str, str]:
    """The counters of one half: RDMA sent and received, netdev sent."""
    rdma = f"/sys/class/infiniband/{port.hca}/ports/1/counters"
    netdev = f"/sys/class/net/{port.netdev}/statistics"
    return (
        f"{rdma}/port_xmit_data",
        f"{rdma}/port_rcv_data",
        f"{netdev}/tx_bytes",
    )
