"""The model: has every node the same, locked weights?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.judge import serving as judge

if TYPE_CHECKING:
    from verify.claim import Claim
    from verify.observe import ObservedCluster, ObservedNode


def test_files(claim: Claim, cluster: ObservedCluster, node: ObservedNode) -> None:
    """Every file of the model has the locked SHA-256 on the node."""
    found = cluster.each(lambda each: each.model_sha256)  # all nodes hash at once, and only once
    claim.settle(judge.model_files(node.expected.model_files, found[node.expected.name]))
