"""One node and four: nothing is written for two."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy import daily
from deploy.errors import DeployFailedError
from deploy.lab.lifecycle import lab_down, lab_up
from tests.integration.conftest import lab_slot
from tests.integration.deploy.conftest import own_cluster
from verify.report import Outcome
from verify.run import run_checks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab


@pytest.fixture(params=[1, 4])
def sized(
    lab_root: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Cluster, int]]:
    """A cluster and its number of nodes; a single node has no fabric at all."""
    count: int = request.param
    with lab_slot(lab_root) as spec:
        try:
            lab = lab_up(replace(spec, node_count=count), Silent())
            with own_cluster(lab, lab_root, tmp_path, f"count {count}", fabric=count > 1) as own:
                yield own, count
        finally:
            lab_down(spec)


def names(cluster: Cluster, generation: int) -> dict[str, list[str]]:
    """What should run on each node."""
    return {
        node.name: [f"sparklock-{cluster.folder.name}-g{generation}-r{rank}"]
        for rank, node in enumerate(cluster.lab.spec.nodes)
    }


def running(cluster: Cluster) -> dict[str, list[str]]:
    return {node: [name for name, _ in found] for node, found in cluster.containers().items()}


def test_a_life_on_one_node_and_on_four(sized: tuple[Cluster, int]) -> None:
    cluster, count = sized
    first = cluster.deploy()
    assert first.answer
    assert len(first.sent_bytes) == count
    assert running(cluster) == names(cluster, 1)
    assert cluster.answers()
    assert not cluster.deploy().changed
    assert daily.status(cluster.file).up_to_date
    report = run_checks(cluster.file, progress=Silent())
    report.require_passed()
    assert len(report.nodes) == count
    proven = {item.check.id for item in report.checks if item.outcome is Outcome.PASSED}
    assert any(name.startswith("collective.") for name in proven) == (count > 1)

    cluster.change("serve.args", max_model_len=128)
    assert cluster.deploy().generation == 2
    assert cluster.answers()
    logs = daily.logs(cluster.file, tail=3).logs
    assert [log.rank for log in logs if "-g2-" in log.container] == list(range(count))

    cluster.change("serve.args", max_model_len=10**6)  # more than the model has: it will not start
    with pytest.raises(DeployFailedError):
        cluster.deploy()
    assert running(cluster) == names(cluster, 2)
    daily.stop(cluster.file, remove=True)
    assert running(cluster) == {node.name: [] for node in cluster.lab.spec.nodes}
