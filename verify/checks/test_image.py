"""The image: is what runs on every node the image of the lock?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.judge import image as judge

if TYPE_CHECKING:
    from verify.claim import Claim
    from verify.expected import ExpectedCluster
    from verify.observe import ObservedNode


def test_identity(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """The running container's image has the lock's config digest or manifest digest."""
    claim.settle(judge.identity(expected.image, node.engine, node.container))


def test_layers(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """The image consists of the locked layers in the locked order."""
    claim.settle(judge.layers(expected.image, node.image_diff_ids))


def test_files(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """Every grafted, edited and own file has the locked SHA-256 inside the running container."""
    claim.settle(judge.files(expected.image, node.inside))


def test_stale_files(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """Files of the base that the lock takes out are absent inside the running container."""
    claim.settle(judge.stale_files(expected.image, node.inside))


def test_executables(claim: Claim, expected: ExpectedCluster, node: ObservedNode) -> None:
    """Entrypoint, node script and vllm are executable inside the running container."""
    claim.settle(judge.executables(expected.image, node.inside))
