"""The fabric: is every listed RDMA device up, fast, and reachable at its own address?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.judge import fabric as judge

if TYPE_CHECKING:
    from verify.claim import Claim
    from verify.expected import ExpectedPort
    from verify.observe import ObservedCluster, ObservedNode


def test_port_is_active(claim: Claim, cluster: ObservedCluster, port: ExpectedPort) -> None:
    """The RDMA port's state is ACTIVE."""
    claim.settle(judge.port_is_active(cluster.node(port.node).rdma_ports[port.hca]))


def test_link_is_up(claim: Claim, cluster: ObservedCluster, port: ExpectedPort) -> None:
    """The RDMA port's physical state is LinkUp."""
    claim.settle(judge.link_is_up(cluster.node(port.node).rdma_ports[port.hca]))


def test_link_layer(claim: Claim, cluster: ObservedCluster, port: ExpectedPort) -> None:
    """The RDMA port speaks Ethernet, as RoCE needs."""
    claim.settle(judge.link_layer(cluster.node(port.node).rdma_ports[port.hca]))


def test_rate(claim: Claim, cluster: ObservedCluster, port: ExpectedPort) -> None:
    """The RDMA port's rate is at least the wanted one."""
    claim.settle(judge.rate(port, cluster.node(port.node).rdma_ports[port.hca]))


def test_netdev(claim: Claim, cluster: ObservedCluster, port: ExpectedPort) -> None:
    """The RDMA device's own netdev is the listed one."""
    found = cluster.node(port.node).hca_netdevs.get(port.hca, ())
    claim.settle(judge.netdev_belongs(port, found))


def test_netdev_is_up(claim: Claim, cluster: ObservedCluster, port: ExpectedPort) -> None:
    """The netdev is up and has a carrier."""
    claim.settle(judge.netdev_is_up(port, cluster.node(port.node).netdevs.get(port.netdev)))


def test_mtu(claim: Claim, cluster: ObservedCluster, port: ExpectedPort) -> None:
    """The netdev's MTU is the wanted one."""
    claim.settle(judge.mtu(port, cluster.node(port.node).netdevs.get(port.netdev)))


def test_address(claim: Claim, cluster: ObservedCluster, port: ExpectedPort) -> None:
    """The netdev has the listed address and prefix."""
    claim.settle(judge.address(port, cluster.node(port.node).netdevs.get(port.netdev)))


def test_gid(claim: Claim, cluster: ObservedCluster, port: ExpectedPort) -> None:
    """The RDMA port has a RoCE v2 GID of exactly the listed netdev and address."""
    claim.settle(judge.gid(port, cluster.node(port.node).rdma_ports[port.hca]))


def test_subnets_differ(claim: Claim, node: ObservedNode) -> None:
    """The halves of the node's cable have addresses in different subnets."""
    claim.settle(judge.subnets_differ(node.expected.ports, node.netdevs))


def test_firmware_agrees(claim: Claim, cluster: ObservedCluster) -> None:
    """Each RDMA device has the same firmware as its counterparts on the other nodes."""
    ports = cluster.each(lambda node: [node.rdma_ports[port.hca] for port in node.expected.ports])
    claim.settle(judge.firmware_agrees(ports))
