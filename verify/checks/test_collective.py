"""The collective: do the ranks talk to each other over the fabric, by RDMA where they should?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.judge import collective as judge

if TYPE_CHECKING:
    from verify.canary import Canary
    from verify.claim import Claim
    from verify.expected import ExpectedCluster, ExpectedPort
    from verify.observe import ObservedNode
    from verify.shape import Demand


def test_nccl_transport(claim: Claim, node: ObservedNode) -> None:
    """NCCL's own log says that it uses RDMA, and nowhere that it uses sockets."""
    claim.settle(judge.nccl_transport(node.nccl))


def test_nccl_devices(claim: Claim, node: ObservedNode) -> None:
    """NCCL's own log lists exactly the node's RDMA devices."""
    claim.settle(judge.nccl_devices(node.expected.ports, node.nccl))


def test_nccl_channels(claim: Claim, node: ObservedNode) -> None:
    """NCCL's channels, once told of, go by every RDMA device of the node."""
    claim.settle(judge.nccl_channels(node.expected.ports, node.nccl))


def test_connections(claim: Claim, node: ObservedNode) -> None:
    """Processes of the container hold TCP connections between the nodes' fabric addresses."""
    claim.settle(judge.connections(node.expected, node.inside))


def test_rdma_carries(
    claim: Claim,
    expected: ExpectedCluster,
    canary: Canary,
    demand: Demand | None,
    port: ExpectedPort,
) -> None:
    """The RDMA device moved its share of the all-reduces of a completion, both ways."""
    halves = len(expected.node(port.node).ports)
    claim.settle(
        judge.rdma_carries(port, canary.moved(port), demand, halves, uses_rdma=expected.uses_rdma)
    )


def test_all_reduces_cross(
    claim: Claim,
    expected: ExpectedCluster,
    canary: Canary,
    demand: Demand | None,
    node: ObservedNode,
) -> None:
    """The node sent over its fabric what tensor parallelism needs for a completion."""
    moved = {port.netdev: canary.moved(port) for port in node.expected.ports}
    claim.settle(judge.all_reduces_cross(moved, demand, uses_rdma=expected.uses_rdma))


def test_netdev_is_quiet(
    claim: Claim,
    expected: ExpectedCluster,
    canary: Canary,
    demand: Demand | None,
    port: ExpectedPort,
) -> None:
    """TCP over the netdev did not carry what RDMA should."""
    moved = canary.moved(port)
    claim.settle(judge.netdev_is_quiet(port, moved, demand, uses_rdma=expected.uses_rdma))


def test_rdma_errors(claim: Claim, canary: Canary, port: ExpectedPort) -> None:
    """No error counter of the RDMA device rose during completions; it proves nothing under load."""
    claim.settle(judge.rdma_errors(port, canary.moved(port)))
