"""The container: does each rank run as the lock and the manifest say?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.judge import container as judge
from verify.judge import rights

if TYPE_CHECKING:
    from verify.claim import Claim
    from verify.expected import ExpectedCluster
    from verify.observe import ObservedCluster, ObservedNode


def test_labels(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """The running container was made for this lock, this cluster and this rank, by its labels."""
    strict = expected.must_be_of_lock
    claim.settle(judge.labels(node.expected, node.container, must_be_of_lock=strict))


def test_one_generation(claim: Claim, cluster: ObservedCluster) -> None:
    """The containers of all nodes were made by one deployment."""
    claim.settle(judge.one_generation(cluster.each(lambda node: node.container)))


def test_one_cache(claim: Claim, expected: ExpectedCluster, cluster: ObservedCluster) -> None:
    """All ranks compile into caches that were made together, for this image and model."""
    containers = cluster.each(lambda node: node.container)
    claim.settle(judge.one_cache(containers, kept=expected.keeps_caches))


def test_least_privilege(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """The container is not privileged, and neither processes nor shared memory are the node's."""
    claim.settle(rights.least_privilege(expected.rights, node.container))


def test_capabilities(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """The serving process can have no capability beyond the manifest's, by the kernel's word."""
    claim.settle(rights.capabilities(expected.rights, node.inside))


def test_log_rotation(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """The engine bounds the rank's log, so that it never fills the node's disk."""
    claim.settle(rights.log_rotation(expected.rights, node.container))


def test_restart_policy(claim: Claim, node: ObservedNode) -> None:
    """No rank comes back by itself and alone."""
    claim.settle(judge.restart_policy(node.container))


def test_entrypoint(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """The container starts by the locked image's entrypoint."""
    claim.settle(judge.entrypoint(expected.image.entrypoint, node.container))


def test_devices(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """The manifest's devices exist inside the running container, and it was given no other."""
    claim.settle(rights.devices(expected.devices, node.rdma_files, node.container, node.inside))


def test_locked_memory(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """The serving process may lock all memory for RDMA, by the kernel's word."""
    claim.settle(rights.locked_memory(node.inside, uses_rdma=expected.uses_rdma))


def test_open_files(claim: Claim, node: ObservedNode) -> None:
    """The serving process may open enough files, by the kernel's word."""
    claim.settle(rights.open_files(node.inside))


def test_environment(claim: Claim, node: ObservedNode) -> None:
    """The container has the manifest's variables and those that the fabric needs."""
    claim.settle(judge.environment(node.expected, node.container))


def test_mounts(claim: Claim, node: ObservedNode) -> None:
    """The container has the model and the manifest's paths of the node, and no other."""
    claim.settle(judge.mounts(node.expected, node.container))


def test_command(claim: Claim, node: ObservedNode) -> None:
    """The serving process was started with the manifest's arguments for its rank."""
    claim.settle(judge.command(node.expected, node.inside))


def test_commands_agree(claim: Claim, cluster: ObservedCluster) -> None:
    """The live command lines of all ranks differ in nothing but what belongs to a rank."""
    claim.settle(judge.commands_agree(cluster.each(lambda node: node.inside)))
