"""Starts that hang, fail or only seem to serve, on the lab's real engines and network.

vLLM is the lab's stand-in; scripts of these tests, in the image, make it late, wrong or silent.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import tomlkit

from builder import pipeline as builder
from builder.edges.files import read_manifest
from builder.progress import Silent
from deploy import errors
from deploy.confirm import Limits, confirm
from deploy.reaching import connected
from tests.integration.deploy.conftest import NODES, PORT, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deploy.lab.control import LabNode
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab

HEAD, WORKER = NODES

LATE = """#!/bin/bash
[ -z "${LATE_S:-}" ] || sleep "$LATE_S"
exec ./run-cluster-node.sh "$@" ${MORE_ARGS:-}
"""
"""A launcher that may be late, and may give its own rank other arguments."""

FAILING = f"""#!/usr/bin/python3
import http.server, sys, time
if sys.argv[2] == "node":
    time.sleep(600)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(200 if self.path == "/health" else 404)
    def do_POST(self):
        self.send_error(500, "the engine is dead")
http.server.HTTPServer(("127.0.0.1", {PORT}), Handler).serve_forever()
"""
"""A server whose health is fine and whose every completion fails."""


def launched_by(cluster: Cluster, program: str, **env: dict[str, str]) -> None:
    """Lock a launcher of the test's own; `env` are variables of one node each, by rank."""
    (cluster.folder / "launcher.sh").write_text(program)
    document: Any = tomlkit.parse(cluster.file.read_text())
    target = "/workspace/vllm/launcher.sh"
    script = {"source": "launcher.sh", "target": target, "mode": "0755"}
    document["image"]["file"].append(tomlkit.item(script))
    document["serve"]["node_script"] = "./launcher.sh"
    for name, values in env.items():
        node = document["nodes"][int(name.removeprefix("rank"))]
        node.setdefault("env", tomlkit.table()).update(values)
    cluster.file.write_text(tomlkit.dumps(document))
    builder.lock(cluster.file, Silent())


@contextmanager
def meanwhile(action: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=action)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def trial(cluster: Cluster, rank: int) -> str:
    return f"sparklock-{cluster.folder.name}-g1-r{rank}.trial"


def runs(node: LabNode, name: str) -> bool:
    return name in node.run(["docker", "ps", "--format", "{{.Names}}"]).splitlines()


def signal(node: LabNode, name: str, kind: str) -> None:
    """Send a signal to every process of a container; STOP is what a debugger does."""
    pids = node.run(["docker", "top", name, "-eo", "pid"]).split()[1:]
    node.run(["kill", f"-{kind}", *pids])


def test_a_rank_that_never_comes_is_told_after_its_own_time_and_not_after_the_whole(
    cluster: Cluster,
) -> None:
    launched_by(cluster, LATE, rank1={"LATE_S": "600"})
    cluster.change("serve", rendezvous_timeout_s=5)
    with pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    cause = caught.value.cause
    assert isinstance(cause, errors.NoCompletionError)
    assert "have not met within 5 s" in cause.what
    assert cause.verdict.rank == 1
    assert "the head listens, and this rank has not called it" in cause.verdict.what
    assert any("sleep" in line for line in cause.verdict.evidence)
    assert cluster.containers() == {node: [] for node in NODES}


def test_a_firewall_between_the_ranks_is_told_from_the_unanswered_call(cluster: Cluster) -> None:
    launched_by(cluster, LATE, rank1={"LATE_S": "2"})
    cluster.change("serve", rendezvous_timeout_s=10)
    rule = ["INPUT", "-p", "tcp", "--dport", str(PORT + 1), "-j", "DROP"]
    head, worker, name = cluster.node(HEAD), cluster.node(WORKER), trial(cluster, 1)

    def close() -> None:  # after preflight, which tries the port
        until(lambda: runs(worker, name))
        head.run(["iptables", "-A", *rule])

    try:
        with meanwhile(close), pytest.raises(errors.DeployFailedError) as caught:
            cluster.deploy()
    finally:
        head.run(["iptables", "-D", *rule])
    cause = caught.value.cause
    assert isinstance(cause, errors.NoCompletionError)
    assert "gets no answer from" in cause.verdict.what
    assert "SYN-SENT" in cause.verdict.evidence[0]
    assert "firewalls" in cause.verdict.remedy


def test_a_rank_that_is_frozen_while_it_starts_is_told(cluster: Cluster) -> None:
    launched_by(cluster, LATE, rank1={"LATE_S": "600"})
    cluster.change("serve", rendezvous_timeout_s=10)
    node, name = cluster.node(WORKER), trial(cluster, 1)

    def stop() -> None:
        until(lambda: runs(node, name))
        signal(node, name, "STOP")

    with meanwhile(stop), pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    cause = caught.value.cause
    assert isinstance(cause, errors.NoCompletionError)
    assert cause.verdict.rank == 1
    assert "frozen" in cause.verdict.what


@pytest.mark.parametrize("rank", [0, 1])
def test_the_rank_that_ends_first_is_named_with_its_own_words(cluster: Cluster, rank: int) -> None:
    launched_by(cluster, LATE, **{f"rank{rank}": {"MORE_ARGS": "--no-such-flag"}})
    with pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    cause = caught.value.cause
    assert isinstance(cause, errors.StartFailedError)
    assert cause.verdict.rank == cause.ends[0].rank == rank
    assert cause.ends[0].exit_code == 2
    assert "unrecognized arguments: --no-such-flag" in cause.verdict.what
    assert cluster.containers() == {node: [] for node in NODES}


def test_a_rank_whose_container_is_removed_is_told_at_once(cluster: Cluster) -> None:
    launched_by(cluster, LATE, rank1={"LATE_S": "600"})
    node, name = cluster.node(WORKER), trial(cluster, 1)

    def remove() -> None:
        until(lambda: runs(node, name))
        node.run(["docker", "rm", "--force", name])

    with meanwhile(remove), pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    cause = caught.value.cause
    assert isinstance(cause, errors.StartFailedError)
    # It is killed first: a look in between finds it ended, a later one does not find it.
    assert cause.verdict.what.startswith(("rank 1 on spark-b is gone", "rank 1 on spark-b was kil"))


def test_a_served_pair_is_confirmed_by_its_own_settings_and_not_when_a_rank_is_frozen(
    served: Cluster,
) -> None:
    ranks = [(name, served.containers()[name][0][0]) for name in NODES]
    served.change("serve", port=PORT + 7)  # of today's manifest, not of what runs
    limits = Limits(start_s=20, completion_s=2)
    told: list[str] = []
    with connected(read_manifest(served.file)) as nodes:
        answer = confirm(ranks, nodes, limits, threading.Event(), told=told.append)
        assert answer.tokens > 0
        assert [line.partition(",")[0] for line in told] == [
            "the API answers",
            "a completion has come",
        ]
        signal(served.node(WORKER), ranks[1][1], "STOP")
        with pytest.raises(errors.NoCompletionError) as caught:
            confirm(ranks, nodes, limits, threading.Event())
    signal(served.node(WORKER), ranks[1][1], "CONT")
    assert caught.value.what == "no completion within 2 s, 2 times"
    assert caught.value.verdict.rank == 1
    assert "frozen" in caught.value.verdict.what


def test_a_cable_that_is_cut_under_a_pair_that_serves_is_told_from_what_nobody_acknowledges(
    served: Cluster,
) -> None:
    ranks = [(name, served.containers()[name][0][0]) for name in NODES]
    limits = Limits(start_s=20, completion_s=2)
    with (
        connected(read_manifest(served.file)) as nodes,
        served.node(HEAD).cut_from(WORKER),
        pytest.raises(errors.NoCompletionError) as caught,
    ):
        confirm(ranks, nodes, limits, threading.Event())
    assert caught.value.verdict.what.startswith("the network: what rank 0 on spark-a sends")
    assert "sent again" in caught.value.verdict.evidence[0]


def test_a_rank_that_logs_failures_while_the_client_sees_200_ends_the_deploy(
    cluster: Cluster,
) -> None:
    launched_by(cluster, LATE, rank1={"MORE_ARGS": "--max-model-len 4"})
    with pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    cause = caught.value.cause
    assert isinstance(cause, errors.RankLogError)
    assert (cause.node, cause.rank) == (WORKER, 1)
    assert "max_model_len" in cause.lines[0]
    assert cluster.containers() == {node: [] for node in NODES}


def test_a_server_that_is_healthy_and_fails_every_completion_is_not_waited_for_for_long(
    cluster: Cluster,
) -> None:
    launched_by(cluster, FAILING)
    cluster.change("serve", completion_timeout_s=1, start_timeout_s=600)
    with pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    cause = caught.value.cause
    assert isinstance(cause, errors.NoCompletionError)
    assert "has not completed a prompt within 2 s" in cause.what
    assert "HTTP 500" in cause.verdict.evidence[0]


def test_weights_that_are_cut_short_are_told_by_the_rank_that_read_them(cluster: Cluster) -> None:
    weights = cluster.folder / "examples/lab/model/model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:100])
    builder.lock(cluster.file, Silent())
    with pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    cause = caught.value.cause
    assert isinstance(cause, errors.StartFailedError)
    assert "cut short" in cause.verdict.what


def test_a_launcher_without_its_interpreter_is_told_from_the_entrypoints_words(
    cluster: Cluster,
) -> None:
    launched_by(cluster, "#!/bin/none\n")
    with pytest.raises(errors.DeployFailedError) as caught:
        cluster.deploy()
    cause = caught.value.cause
    assert isinstance(cause, errors.StartFailedError)
    assert "could not start /workspace/vllm/launcher.sh: cannot exec" in cause.verdict.what
