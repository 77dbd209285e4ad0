from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy import daily, errors, node_errors, pipeline
from tests.integration.deploy.conftest import NODES, until, wait_for_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from deploy.lab.control import LabNode
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab


def killed(node: LabNode, name: str) -> None:
    """Kill a container as soon as it runs."""
    until(lambda: name in node.run(["docker", "ps", "--format", "{{.Names}}"]))
    node.run(["docker", "kill", name])


def test_a_rank_that_refuses_its_arguments_ends_the_deploy_and_the_old_pair_serves(
    served: Cluster,
) -> None:
    before = served.containers()
    served.change("serve.args", no_such_flag=True)
    with pytest.raises(errors.DeployFailedError) as caught:
        served.deploy()
    cause = caught.value.cause
    assert isinstance(cause, errors.StartFailedError)
    assert "--no-such-flag" in cause.ends[0].log
    assert cause.ends[0].exit_code == 2
    assert served.containers() == before
    until(served.answers)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_while_loading_is_told_at_once(cluster: Cluster, rank: int) -> None:
    cluster.slow()
    name = f"sparklock-{cluster.folder.name}-g1-r{rank}.trial"
    killer = threading.Thread(target=killed, args=(cluster.node(NODES[rank]), name))
    killer.start()
    with pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    killer.join()
    cause = caught.value.cause
    assert isinstance(cause, errors.StartFailedError)
    first = cause.ends[0]
    assert (first.node, first.rank, first.exit_code) == (NODES[rank], rank, 137)
    assert cluster.containers() == {node: [] for node in NODES}


def test_a_rank_that_freezes_while_loading_ends_the_wait_at_the_start_timeout(
    served: Cluster,
) -> None:
    served.slow()
    served.change("serve", start_timeout_s=6)
    before = served.containers()
    name = f"sparklock-{served.folder.name}-g2-r1.trial"
    node = served.node("spark-b")

    def freeze() -> None:
        until(lambda: name in node.run(["docker", "ps", "--format", "{{.Names}}"]))
        node.run(["docker", "pause", name])

    freezer = threading.Thread(target=freeze)
    freezer.start()
    with pytest.raises(errors.DeployFailedError) as caught:
        served.deploy()
    freezer.join()
    cause = caught.value.cause
    assert isinstance(cause, errors.NoCompletionError)
    assert "within 6 s of the start" in cause.what
    assert [end.exit_code for end in cause.ends] == [None, None]
    assert served.containers() == before


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("pull image", signal.SIGINT),
        ("create sparklock", signal.SIGINT),
        ("stop sparklock", signal.SIGTERM),
        ("wait for", signal.SIGINT),
    ],
)
def test_an_interrupted_deploy_leaves_the_old_pair_serving(
    served: Cluster, moment: str, number: signal.Signals
) -> None:
    before = served.containers()
    template = served.folder / "examples/lab/chat_template.jinja"
    template.write_text(template.read_text() + f"{{# {served.folder.name} #}}\n")
    served.slow()
    with served.deploying() as process:
        wait_for_line(process, moment)
        os.killpg(process.pid, number)  # as the terminal does: to every process of the group
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 5, said
    assert "interrupted" in said
    assert "rolled back" in said
    assert served.containers() == before, said
    until(served.answers)


@pytest.mark.parametrize("moment", ["create sparklock", "stop sparklock", "wait for"])
def test_after_a_killed_deploy_the_next_one_brings_the_wanted_pair(
    served: Cluster, moment: str
) -> None:
    served.change("serve.args", max_model_len=128)
    with served.deploying() as process:
        wait_for_line(process, moment)
        process.kill()
    served.deploy()
    assert daily.status(served.file).up_to_date
    assert all(len(items) == 1 for items in served.containers().values())
    assert served.answers()


def test_after_a_killed_deploy_a_failing_one_brings_back_the_pair_that_served(
    served: Cluster,
) -> None:
    before = served.containers()
    served.slow()
    with served.deploying() as process:
        wait_for_line(process, "wait for")
        process.kill()
    served.slow(0)
    served.change("serve.args", no_such_flag=True)
    with pytest.raises(errors.DeployFailedError, match="rolled back"):
        served.deploy()
    assert served.containers() == before
    until(served.answers)


def test_a_second_deploy_at_the_same_time_is_refused(served: Cluster) -> None:
    served.slow()
    with served.deploying() as process:
        wait_for_line(process, "wait for")
        with pytest.raises(node_errors.DeployBusyError) as caught:
            served.deploy()
        holder = caught.value.holder
        assert holder is not None
        assert (holder.cluster, holder.verb) == (served.folder.name, "deploy")
        assert holder.pid == process.pid
        with pytest.raises(node_errors.DeployBusyError):
            daily.stop(served.file)
        assert not pipeline.plan(served.file).up_to_date
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_a_deploy_whose_guard_is_broken_changes_nothing_more(served: Cluster) -> None:
    served.slow()
    with served.deploying() as process:
        wait_for_line(process, "wait for")
        stopped = daily.stop(served.file, remove=True, break_guard=True)
        said, _ = process.communicate(timeout=60)
    assert {node for node, _ in stopped.containers} == set(NODES)
    assert process.returncode == 5
    assert "somebody ended its process on the node" in said
    assert served.containers() == {name: [] for name in NODES}, "the old pair was not started"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_does_not_wait_for_a_node_that_does_not_answer(
    cluster: Cluster, number: signal.Signals
) -> None:
    cluster.change("ssh", connect_timeout_s=600)
    with cluster.node("spark-b").cut_off(), cluster.deploying() as process:
        until(lambda: len(masters(process.pid)) == len(NODES))
        os.killpg(process.pid, number)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 5, said
    assert "interrupted" in said
    assert not masters(process.pid)


def masters(parent: int) -> list[int]:
    """The ssh processes of a deploy."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    threads = children.parents[1].glob("*/children")
    pids = [int(pid) for file in threads for pid in file.read_text().split()]
    return [pid for pid in pids if b"ConnectTimeout" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_an_ssh_that_stalls_ends_the_deploy_and_the_next_one_recovers(served: Cluster) -> None:
    served.slow(2)
    with served.deploying() as process:
        wait_for_line(process, "stop sparklock")
        with served.node("spark-b").stalled_sshd():
            said, _ = process.communicate(timeout=120)
    assert process.returncode == 5, said
    assert "node spark-b: the connection to the node broke" in said
    served.deploy()
    assert daily.status(served.file).up_to_date
    until(served.answers)


def off(node: LabNode) -> None:
    node.power_off()


def no_sshd(node: LabNode) -> None:
    node.stop_sshd()


def no_engine(node: LabNode) -> None:
    node.stop_engine()


def other_key(node: LabNode) -> None:
    node.change_host_key()


@pytest.mark.parametrize(
    ("break_it", "kind"),
    [
        (off, node_errors.NodeUnreachableError),
        (no_sshd, node_errors.NodeRefusedError),
        (no_engine, node_errors.EngineSocketMissingError),
        (other_key, node_errors.HostKeyChangedError),
    ],
)
def test_a_broken_node_is_told_by_name_with_its_remedy(
    cluster: Cluster, break_it: Callable[[LabNode], None], kind: type[node_errors.OneNodeError]
) -> None:
    node = cluster.node("spark-b")
    cluster.change("ssh", connect_timeout_s=2)
    break_it(node)
    try:
        with pytest.raises(node_errors.OneNodeError) as caught:
            pipeline.plan(cluster.file)
    finally:
        if break_it is other_key:
            node.restore_host_key()
    assert type(caught.value) is kind
    assert caught.value.node == "spark-b"


def test_both_broken_nodes_are_told(cluster: Cluster) -> None:
    for name in NODES:
        cluster.node(name).stop_sshd()
    with pytest.raises(errors.NodesFailedError) as caught:
        pipeline.plan(cluster.file)
    places = [message.place for message in caught.value.messages]
    assert places == ["node spark-a", "node spark-b"]


@pytest.mark.parametrize("dead", NODES)
def test_with_a_dead_node_status_and_logs_tell_of_the_other_and_stop_stops_it(
    served: Cluster, dead: str
) -> None:
    (living,) = set(NODES) - {dead}
    served.node(dead).stop_sshd()
    status = daily.status(served.file)
    assert [node.node for node in status.nodes] == [living]
    assert [item.running for item in status.nodes[0].containers] == [True]
    assert not status.up_to_date
    assert "unknown" in status.text()
    assert isinstance(status.failure, node_errors.NodeRefusedError)
    assert status.failure.node == dead
    read = daily.logs(served.file, tail=5)
    assert [log.node for log in read.logs] == [living]
    assert isinstance(read.failure, node_errors.NodeRefusedError)
    stopped = daily.stop(served.file)
    assert [node for node, _ in stopped.containers] == [living]
    assert stopped.failure is not None
    assert stopped.failure.exit_code == 5
    served.node(dead).start_sshd()
    # The rank that was left alone may have ended by itself, so that nothing is to be stopped there.
    removed = daily.stop(served.file, remove=True).containers
    assert [node for node, _ in removed] == list(NODES)


def test_with_no_node_in_reach_status_is_an_error(served: Cluster) -> None:
    for name in NODES:
        served.node(name).stop_sshd()
    for ask in (daily.status, daily.stop, partial(daily.logs, tail=5)):
        with pytest.raises(errors.NodesFailedError):
            ask(served.file)


def test_a_node_lost_while_loading_stops_the_deploy_and_the_next_one_recovers(
    served: Cluster,
) -> None:
    served.slow()
    with served.deploying() as process:
        wait_for_line(process, "wait for")
        served.node("spark-b").power_off()
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 5
    assert "node spark-b" in said
    assert "not started again" in said
    served.node("spark-b").power_on()
    served.slow(0)
    served.deploy()
    assert served.answers()
    assert all(len(items) == 1 for items in served.containers().values())


def test_an_engine_that_crashes_while_loading_stops_the_deploy(served: Cluster) -> None:
    served.slow()
    node = served.node("spark-b")
    with served.deploying() as process:
        wait_for_line(process, "wait for")
        node.stop_engine(crash=True)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 5
    assert "the Docker engine does not answer" in said
    node.start_engine()
    served.slow(0)
    served.deploy()
    assert served.answers()


def test_a_tampered_layer_of_the_base_is_refused_by_the_node(cluster: Cluster) -> None:
    cluster.node("spark-a").run(["docker", "image", "prune", "--all", "--force"])
    blobs = cluster.folder / "examples/lab/images/base/blobs/sha256"
    layer = max(blobs.iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(layer.read_bytes())
    data[len(data) // 2] ^= 1
    layer.write_bytes(data)
    with pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    assert isinstance(caught.value.cause, node_errors.ImagePullError)
    assert caught.value.cause.node == "spark-a"
    assert cluster.containers() == {name: [] for name in NODES}


def test_a_missing_layer_of_the_base_is_named(cluster: Cluster) -> None:
    cluster.node("spark-a").run(["docker", "image", "prune", "--all", "--force"])
    blobs = cluster.folder / "examples/lab/images/base/blobs/sha256"
    layer = max(blobs.iterdir(), key=lambda path: path.stat().st_size)
    layer.unlink()
    with pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    assert isinstance(caught.value.cause, node_errors.ImagePullError)
    assert caught.value.cause.missing[:1] == (f"sha256:{layer.name}",)


def test_a_model_replaced_in_vain_comes_back_with_the_pair_that_served_it(
    served: Cluster,
) -> None:
    path = f"/srv/models/{served.folder.name}/config.json"
    before = {name: served.node(name).run(["sha256sum", path]) for name in NODES}
    config = served.folder / "examples/lab/model/config.json"
    config.write_text(config.read_text() + "\n")
    served.change("serve.args", no_such_flag=True)
    with pytest.raises(errors.DeployFailedError, match="put the model files back"):
        served.deploy()
    assert {name: served.node(name).run(["sha256sum", path]) for name in NODES} == before
    until(served.answers)
