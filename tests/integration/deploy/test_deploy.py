from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from deploy import daily, pipeline
from deploy.errors import PreflightError, SilentPairError
from tests.integration.deploy.conftest import NODES

if TYPE_CHECKING:
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab

SIGNAL_WORKER = """
import os, pathlib, signal, sys
for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if file.read_bytes().startswith(b"VLLM::Worker"):
        os.kill(int(file.parent.name), getattr(signal, sys.argv[1]))
"""


def test_a_first_deploy_serves_and_a_second_changes_nothing(cluster: Cluster) -> None:
    first = cluster.deploy()
    assert first.generation == 1
    assert first.answer
    assert all(size > 0 for _, size in first.sent_bytes)
    assert cluster.answers()
    before = cluster.containers()
    second = cluster.deploy()
    assert not second.changed
    assert "up to date" in second.text()
    assert cluster.containers() == before
    assert daily.status(cluster.file).up_to_date


def test_a_plan_changes_nothing_and_says_what_deploy_then_does(cluster: Cluster) -> None:
    plan = pipeline.plan(cluster.file)
    assert not plan.up_to_date
    assert cluster.containers() == {name: [] for name in NODES}
    assert cluster.deploy().plan == plan.plan
    assert pipeline.plan(cluster.file).up_to_date


def test_a_changed_setting_makes_a_new_generation_and_moves_no_image(served: Cluster) -> None:
    served.change("serve.args", max_model_len=128)
    report = served.deploy()
    assert report.generation == 2
    assert dict(report.sent_bytes) == dict.fromkeys(NODES, 0)
    names = [[name for name, _ in items] for items in served.containers().values()]
    assert names == [[f"sparklock-{served.folder.name}-g2-r{rank}"] for rank in (0, 1)]
    assert served.answers()


def test_a_changed_file_of_ours_moves_only_our_layer(served: Cluster) -> None:
    template = served.folder / "examples/lab/chat_template.jinja"
    template.write_text(template.read_text() + "{# changed #}\n")
    served.change("serve.args", max_model_len=128)
    sent = dict(served.deploy().sent_bytes)
    assert all(0 < size < 60_000 for size in sent.values()), sent


def test_a_changed_model_is_sent_placed_and_served(served: Cluster) -> None:
    (served.folder / "examples/lab/model/extra.txt").write_text("new")
    served.change("serve.args", max_model_len=128)
    report = served.deploy()
    assert dict(report.sent_bytes) == dict.fromkeys(NODES, 3)
    for name in NODES:
        folder = f"/srv/models/{served.folder.name}"
        assert served.node(name).run(["cat", f"{folder}/extra.txt"]) == "new"
        own = served.node(name).run(["find", f"{folder}/.sparklock", "-type", "f"])
        assert "/in/" not in own
        assert "/old/" not in own


def test_a_model_file_that_changed_on_a_node_is_put_right(served: Cluster) -> None:
    path = f"/srv/models/{served.folder.name}/config.json"
    right = served.node("spark-b").run(["sha256sum", path])
    served.node("spark-b").run(["sed", "-i", "s/a/b/", path])
    report = served.deploy()
    assert report.generation == 2
    assert {node for node, size in report.sent_bytes if size} == {"spark-b"}
    assert served.node("spark-b").run(["sha256sum", path]) == right


def test_the_hash_of_a_model_is_noted_and_a_change_is_seen_all_the_same(served: Cluster) -> None:
    assert not served.deploy().changed
    folder = f"/srv/models/{served.folder.name}"
    noted = json.loads(served.node("spark-a").run(["cat", f"{folder}/.sparklock/seen"]))
    assert "config.json" in noted
    # Same size, same modification time: only the change time betrays it.
    weights = served.node("spark-a").root / folder[1:] / "model.safetensors"
    before = weights.stat()
    with weights.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not pipeline.plan(served.file).up_to_date


def test_a_rank_that_was_removed_by_hand_is_replaced_with_its_pair(served: Cluster) -> None:
    ((name, _),) = served.containers()["spark-b"]
    served.node("spark-b").run(["docker", "rm", "--force", name])
    assert served.deploy().generation == 2
    assert served.answers()


def test_an_image_that_lost_its_tag_is_tagged_again_and_nothing_restarts(served: Cluster) -> None:
    before = served.containers()
    node = served.node("spark-a")
    reference = node.run(["docker", "ps", "--no-trunc", "--format", "{{.Image}}"]).split()[0]
    node.run(["docker", "tag", reference, "other:name"])
    node.run(["docker", "rmi", reference])
    assert [type(a).__name__ for a in served.deploy().plan.actions] == ["TagImage"]
    assert served.containers() == before


def test_stop_with_remove_removes_the_containers_and_keeps_image_and_model(served: Cluster) -> None:
    removed = daily.stop(served.file, remove=True).containers
    assert [node for node, _ in removed] == list(NODES)
    assert served.names() == {name: [] for name in NODES}
    assert "nothing was deployed" in daily.stop(served.file, remove=True).text()
    assert dict(served.deploy().sent_bytes) == dict.fromkeys(NODES, 0)


def test_logs_come_from_every_rank_head_first(served: Cluster) -> None:
    logs = daily.logs(served.file, tail=5).logs
    assert [(log.node, log.rank) for log in logs] == [("spark-a", 0), ("spark-b", 1)]
    assert all(len(log.text.splitlines()) <= 5 for log in logs)


def test_problems_of_both_nodes_are_told_together_and_nothing_is_changed(served: Cluster) -> None:
    before = served.containers()
    served.node("spark-a").set_port_state("rocep1s0f0", "1: DOWN")
    served.node("spark-b").remove_hca("roceP2p1s0f0")
    served.change("serve.args", max_model_len=128)
    with pytest.raises(PreflightError) as caught:
        served.deploy()
    places = [message.place for message in caught.value.messages]
    assert places == ["node spark-a, rocep1s0f0", "node spark-b, roceP2p1s0f0"]
    assert served.containers() == before


def test_a_port_that_something_else_holds_is_told_before_anything_is_changed(
    cluster: Cluster,
) -> None:
    cluster.change("serve", port=22)
    with pytest.raises(PreflightError, match="something else listens"):
        cluster.deploy()
    assert cluster.containers() == {name: [] for name in NODES}


def test_a_pair_that_runs_and_does_not_answer_is_not_up_to_date(served: Cluster) -> None:
    served.change("serve", completion_timeout_s=3)
    served.deploy()
    before = served.containers()
    node = served.node("spark-b")
    ((container, _),) = before["spark-b"]
    stop = ["docker", "exec", container, "python3", "-c", SIGNAL_WORKER]
    node.run([*stop, "SIGSTOP"])
    with pytest.raises(SilentPairError) as caught:
        served.deploy()
    node.run([*stop, "SIGCONT"])
    assert caught.value.exit_code == 5
    assert caught.value.node == "spark-a"
    assert "rank 1 on spark-b, which is frozen" in str(caught.value)
    assert served.containers() == before
    assert not served.deploy().changed
