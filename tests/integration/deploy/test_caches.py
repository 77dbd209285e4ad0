"""Compile caches on real engines: kept by image and model, never another's, and cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deploy import daily
from deploy.cache_verbs import caches
from tests.integration.deploy.conftest import NODES

if TYPE_CHECKING:
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab

COMPILES = """#!/bin/bash
date +%N >>"$TRITON_CACHE_DIR/starts"
exec ./run-cluster-node.sh "$@"
"""


def test_what_was_compiled_is_found_again_with_the_same_image_and_model_alone(
    cluster: Cluster,
) -> None:
    cluster.slow(0)
    (cluster.folder / "slow.sh").write_text(COMPILES)
    cluster.change("container", user="65534:65534")  # whoever it runs as may write there
    cluster.deploy()

    (cluster.folder / "slow.sh").write_text(f"{COMPILES}# another image\n")
    cluster.change("serve.args", max_model_len=64)
    cluster.deploy()
    assert starts(cluster) == dict.fromkeys(NODES, 1)
    (cluster.folder / "slow.sh").write_text(COMPILES)
    cluster.change("serve.args", max_model_len=128)
    cluster.deploy()
    assert starts(cluster) == dict.fromkeys(NODES, 2)

    listed = caches(cluster.file)
    assert [node for node, _ in listed.kept] == sorted([*NODES, *NODES])
    assert all(cache.size_bytes for _, cache in listed.kept)
    assert caches(cluster.file, clear=True).removed == []  # they are kept with their generations
    daily.stop(cluster.file, remove=True)
    gone = [cache.name for node, cache in listed.kept if node == NODES[1]]
    cluster.node(NODES[1]).run(["docker", "volume", "rm", *gone])
    cluster.deploy()
    assert starts(cluster) == dict.fromkeys(NODES, 1)  # no rank is warm while another is cold
    daily.stop(cluster.file, remove=True)
    cleared = caches(cluster.file, clear=True)
    assert (len(cleared.removed), cleared.kept) == (4, [])
    assert caches(cluster.file).text() == f"{cluster.folder.name}: no caches"


def starts(cluster: Cluster) -> dict[str, int]:
    """How many starts the cache of each node's container remembers."""
    return {name: int(counted(cluster, name)) for name in NODES}


def counted(cluster: Cluster, node: str) -> str:
    label = f"label=io.sparklock.cluster={cluster.folder.name}"
    run = cluster.node(node).run
    (container,) = run(["docker", "ps", "--quiet", "--filter", label]).split()
    script = 'wc -l <"$TRITON_CACHE_DIR/starts"'
    return run(["docker", "exec", container, "/bin/bash", "-c", script])
