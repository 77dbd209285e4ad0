from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.current import check_lock
from deploy import daily
from deploy.state import ImageStore

if TYPE_CHECKING:
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab


def test_one_image_is_known_on_both_kinds_of_store(mixed_cluster: Cluster) -> None:
    first = mixed_cluster.deploy()
    assert first.generation == 1
    assert mixed_cluster.answers()
    status = daily.status(mixed_cluster.file)
    assert [node.engine.store for node in status.nodes] == [
        ImageStore.GRAPH_DRIVER,
        ImageStore.CONTAINERD,
    ]
    ids = {item.image_id for node in status.nodes for item in node.containers}
    outputs = check_lock(mixed_cluster.file).lock.outputs
    assert ids == {outputs.config_digest, outputs.manifest_digest}
    assert not mixed_cluster.deploy().changed


def test_nothing_of_the_tunnel_stays_on_a_node(mixed_cluster: Cluster) -> None:
    mixed_cluster.deploy()
    for name in ("spark-a", "spark-b"):
        listed = mixed_cluster.node(name).run(
            ["docker", "images", "--digests", "--format", "{{.Repository}}:{{.Tag}}"]
        )
        assert "127.0.0.1" not in listed
        assert f"sparklock/{mixed_cluster.folder.name}" in listed


def test_only_our_layer_moves_when_only_it_changes(mixed_cluster: Cluster) -> None:
    mixed_cluster.deploy()
    template = mixed_cluster.folder / "examples/lab/chat_template.jinja"
    template.write_text(template.read_text() + f"{{# {mixed_cluster.folder.name} #}}\n")
    mixed_cluster.change("serve.args", max_model_len=128)
    sent = dict(mixed_cluster.deploy().sent_bytes)
    assert all(0 < size < 60_000 for size in sent.values()), sent
    assert mixed_cluster.answers()


def test_an_image_that_lost_its_tag_is_tagged_again_on_both_stores(mixed_cluster: Cluster) -> None:
    mixed_cluster.deploy()
    for name in ("spark-a", "spark-b"):
        node = mixed_cluster.node(name)
        reference = node.run(["docker", "ps", "--no-trunc", "--format", "{{.Image}}"]).split()[0]
        node.run(["docker", "tag", reference, "other:name"])
        node.run(["docker", "rmi", reference])
    kinds = [type(action).__name__ for action in mixed_cluster.deploy().plan.actions]
    assert kinds == ["TagImage", "TagImage"]
    assert not mixed_cluster.deploy().changed
