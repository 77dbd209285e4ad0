from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from tests.standin import ADDRESSES, BASE, END_S, Difference, Starter, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.standin import Server

SHORT_S = 0.5


@pytest.fixture
def two_nodes(starter: Starter) -> Server:
    return starter.serve("--max-model-len", "256", ranks=2, nodes=2)


def _worker(server: Server, rank: int) -> int:
    return server.nodes[rank].descendants()[f"VLLM::Worker_TP{rank}"]


def test_a_frozen_rank_hangs_completions_while_health_says_fine(two_nodes: Server) -> None:
    before = two_nodes.tokens("x")
    os.kill(_worker(two_nodes, 1), signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        two_nodes.post("/v1/completions", timeout_s=SHORT_S, prompt="x")
    assert two_nodes.get("/health")[0] == 200
    assert two_nodes.get("/v1/models")[0] == 200
    os.kill(_worker(two_nodes, 1), signal.SIGCONT)
    assert two_nodes.tokens("x") == before


def test_a_killed_far_rank_shows_at_the_next_completion_and_then_the_head_exits(
    two_nodes: Server,
) -> None:
    os.kill(_worker(two_nodes, 1), signal.SIGKILL)
    assert two_nodes.nodes[1].wait() == 1
    assert "VllmWorker-1 died unexpectedly" in two_nodes.nodes[1].text()
    assert two_nodes.get("/health")[0] == 200
    status, answer = two_nodes.post("/v1/completions", prompt="x")
    assert (status, answer["error"]["code"]) == (500, 500)
    assert "EngineCore encountered an issue" in answer["error"]["message"]
    assert two_nodes.get("/health")[0] == 503
    assert two_nodes.head.wait() == 1


def test_a_killed_rank_of_the_head_ends_both_nodes(two_nodes: Server) -> None:
    os.kill(_worker(two_nodes, 0), signal.SIGKILL)
    assert two_nodes.head.wait() == 1
    assert "VllmWorker-0 died unexpectedly" in two_nodes.head.text()
    assert two_nodes.nodes[1].wait() == 1


def test_a_killed_engine_core_ends_both_nodes(two_nodes: Server) -> None:
    os.kill(two_nodes.head.descendants()["VLLM::EngineCore"], signal.SIGKILL)
    assert two_nodes.head.wait() == 1
    assert "EngineCore_DP0 died unexpectedly" in two_nodes.head.text()
    assert two_nodes.nodes[1].wait() == 1


def test_a_killed_parent_leaves_no_process_behind(two_nodes: Server) -> None:
    left = [pid for node in two_nodes.nodes for pid in node.descendants().values()]
    assert len(left) == 3
    for node in two_nodes.nodes:
        node.process.kill()
        node.wait()
    wait_for(lambda: not any(_runs(pid) for pid in left), END_S)


def test_sigterm_to_the_head_ends_both_nodes_without_an_error(two_nodes: Server) -> None:
    two_nodes.tokens("x")
    two_nodes.head.process.terminate()
    assert [node.wait() for node in two_nodes.nodes] == [0, 0]
    assert "ERROR" not in two_nodes.logs()
    assert "Traceback" not in two_nodes.logs()


def test_sigterm_to_the_far_node_ends_that_node_without_an_error(two_nodes: Server) -> None:
    two_nodes.nodes[1].process.terminate()
    assert two_nodes.nodes[1].wait() == 0
    assert "ERROR" not in two_nodes.nodes[1].text()
    assert two_nodes.get("/health")[0] == 200


def test_sigterm_ends_the_head_even_while_a_rank_is_frozen(two_nodes: Server) -> None:
    os.kill(_worker(two_nodes, 1), signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        two_nodes.post("/v1/completions", timeout_s=SHORT_S, prompt="x")
    two_nodes.head.process.terminate()
    assert two_nodes.head.wait() == 0


def test_without_its_peer_the_head_waits_and_can_be_ended(starter: Starter) -> None:
    server = starter.start(ranks=2, nodes=2, without=[1])
    wait_for(lambda: "distributed_init_method" in server.logs(), END_S)
    with pytest.raises(AssertionError, match="not in time"):
        wait_for(lambda: server.is_up() or server.head.process.poll() is not None, SHORT_S)
    assert "ERROR" not in server.logs()
    server.head.process.terminate()
    assert server.head.wait() == 0


def test_with_a_timeout_the_head_gives_up(starter: Starter) -> None:
    server = starter.start("--distributed-timeout-seconds", "1", ranks=2, nodes=2, without=[1])
    assert server.head.wait() == 1
    assert "missing ranks [1]" in server.logs()


def test_the_far_node_may_start_first(starter: Starter) -> None:
    early = starter.start(ranks=2, nodes=2, without=[0])
    wait_for(lambda: "distributed_init_method" in early.logs(), END_S)
    with pytest.raises(AssertionError, match="not in time"):
        wait_for(lambda: early.nodes[0].process.poll() is not None, SHORT_S)


def test_ranks_of_another_world_size_are_turned_away(starter: Starter) -> None:
    server = starter.start(
        ranks=2, nodes=2, different={1: Difference(flags=["--tensor-parallel-size", "4"])}
    )
    assert server.nodes[1].wait() == 1
    assert "rank 0 has world size 2" in server.nodes[1].text()
    assert server.head.process.poll() is None


def test_a_shorter_context_on_the_far_node_is_only_seen_in_its_log(starter: Starter) -> None:
    server = starter.start(
        ranks=2,
        nodes=2,
        different={
            0: Difference(flags=["--max-model-len", "256"]),
            1: Difference(flags=["--max-model-len", "64"]),
        },
    )
    server.wait_up()
    assert len(server.tokens("x", max_tokens=100, ignore_eos=True)) == 100
    assert server.get("/health")[0] == 200
    assert "ERROR" not in server.head.text()
    assert "AssertionError: position 64" in server.nodes[1].text()


def test_an_interface_that_is_not_there_ends_the_node(starter: Starter) -> None:
    server = starter.start(
        ranks=2, nodes=2, different={1: Difference(env={"GLOO_SOCKET_IFNAME": "enp9s9f9np9"})}
    )
    assert server.nodes[1].wait() == 1
    assert "Unable to find address for: enp9s9f9np9" in server.nodes[1].text()
    assert server.head.process.poll() is None


def test_a_master_address_that_is_not_ours_ends_the_head(starter: Starter) -> None:
    server = starter.start("--master-addr", "192.0.2.1", ranks=2, nodes=2, without=[1])
    assert server.head.wait() == 1
    assert "cannot listen on 192.0.2.1" in server.logs()


def test_a_taken_port_ends_the_server_before_it_starts_an_engine(starter: Starter) -> None:
    with socket.socket() as taken:
        taken.bind((ADDRESSES[0], 0))
        taken.listen()
        server = starter.start("--port", str(taken.getsockname()[1]))
        assert server.head.wait() == 1
    assert f"cannot listen on {ADDRESSES[0]}" in server.logs()
    assert "EngineCore" not in server.logs()


def test_the_base_alone_does_not_know_the_model(tmp_path: Path) -> None:
    starter = Starter(BASE, tmp_path)
    server = starter.start(ranks=2, nodes=2)
    assert [node.wait() for node in server.nodes] == [1, 1]
    for node in server.nodes:
        assert (
            "Model architectures ['TinySparkForCausalLM'] are not supported for now. "
            "Supported architectures: dict_keys(['TinyLlamaForCausalLM', "
        ) in node.text()


def test_a_stranger_at_the_master_port_is_turned_away(starter: Starter) -> None:
    server = starter.start("--distributed-timeout-seconds", "2", ranks=2, nodes=2, without=[1])
    wait_for(lambda: "distributed_init_method" in server.logs(), END_S)
    port = int(server.logs().split(f"tcp://{ADDRESSES[0]}:")[1].split()[0])
    with socket.create_connection((ADDRESSES[0], port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
    wait_for(lambda: "Ignoring a connection from 127.0.0.1" in server.logs(), END_S)
    assert server.head.wait() == 1


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
