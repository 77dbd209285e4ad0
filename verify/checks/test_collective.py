"""The collective: do the ranks talk to each other over the fabric, by RDMA where they should?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.judge import collective as judge
from verify.judge.serving import prompt_tokens_of, tokens_of
from verify.parse import parse_model_shape

if TYPE_CHECKING:
    from verify.canary import Canary
    from verify.claim import Claim
    from verify.expected import ExpectedCluster, ExpectedPort
    from verify.observe import ObservedNode


def test_nccl_transport(claim: Claim, node: ObservedNode) -> None:
    """NCCL's own log says that it uses RDMA, and nowhere that it uses sockets."""
    claim.settle(judge.nccl_transport(node.nccl))


def test_nccl_devices(claim: Claim, node: ObservedNode) -> None:
    """NCCL's own log lists exactly the node's RDMA devices."""
    claim.settle(judge.nccl_devices(node.expected.ports, node.nccl))


def test_connections(claim: Claim, node: ObservedNode) -> None:
    """Processes of the container hold TCP connections between the nodes' fabric addresses."""
    claim.settle(judge.connections(node.expected, node.inside))


def test_rdma_carries(
    claim: Claim, expected: ExpectedCluster, canary: Canary, port: ExpectedPort
) -> None:
    """The RDMA device's counters grew both ways while a completion was answered."""
    before, after = canary.before[port.node], canary.after[port.node]
    traffic = judge.traffic_of(port, before, after)
    claim.settle(judge.rdma_carries(port, traffic, uses_rdma=expected.uses_rdma))


def test_all_reduces_cross(
    claim: Claim, expected: ExpectedCluster, canary: Canary, node: ObservedNode
) -> None:
    """The node sent over its fabric what tensor parallelism needs for a completion."""
    name = node.expected.name
    tokens = prompt_tokens_of(canary.answer) + tokens_of(canary.answer)
    shape = parse_model_shape(node.run("cat", "--", node.expected.model_config))
    traffic = {
        port.netdev: judge.traffic_of(port, canary.before[name], canary.after[name])
        for port in node.expected.ports
    }
    claim.settle(judge.all_reduces_cross(traffic, judge.all_reduce_bytes(expected, shape, tokens)))
