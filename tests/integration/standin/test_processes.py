from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.standin import BASE, LAB, command, environment

if TYPE_CHECKING:
    from tests.standin import Server

LAUNCHER = LAB / "src" / "base" / "workspace/vllm/run-cluster-node.sh"
NEEDED = ("--host-ip", "127.0.0.3", "--eth-if", "lo", "--ib-if", "rocep1s0f0,roceP2p1s0f0")


def test_each_node_has_its_own_rank_and_only_the_head_an_engine(pair: Server) -> None:
    assert [sorted(node.descendants()) for node in pair.nodes] == [
        ["VLLM::EngineCore", "VLLM::Worker_TP0"],
        ["VLLM::Worker_TP1"],
    ]


def test_a_title_is_all_that_is_left_of_the_arguments(pair: Server) -> None:
    worker = pair.nodes[1].descendants()["VLLM::Worker_TP1"]
    cmdline = Path(f"/proc/{worker}/cmdline").read_bytes()
    assert cmdline.rstrip(b"\0") == b"VLLM::Worker_TP1"
    assert Path(f"/proc/{worker}/comm").read_text() == "VLLM::Worker_TP\n"


def test_the_first_process_keeps_its_arguments(pair: Server) -> None:
    for node in pair.nodes:
        cmdline = Path(f"/proc/{node.process.pid}/cmdline").read_bytes()
        assert b"\0serve\0" in cmdline
        assert b"\0--master-port\0" in cmdline


def test_the_log_says_which_rank_is_where(pair: Server) -> None:
    head, node = (process.text() for process in pair.nodes)
    assert (
        "rank 0 in world size 2 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 0" in head
    )
    assert (
        "rank 1 in world size 2 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 1" in node
    )
    assert "world_size=2 rank=1 local_rank=0 distributed_init_method=tcp://127.0.0.2:" in node
    assert "mq_connect_ip=127.0.0.2 (local), world_size=2, local_world_size=1" in head
    assert "headless multiproc executor, with head node address 127.0.0.2:" in node
    assert "Application startup complete." in head


def test_an_idle_server_uses_no_processor_time(pair: Server) -> None:
    pids = [pid for node in pair.nodes for pid in node.descendants().values()]
    before = [_voluntary_switches(pid) for pid in pids]
    pair.get("/version")  # the HTTP server alone answers this
    assert [_voluntary_switches(pid) for pid in pids] == before


def _voluntary_switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("voluntary_ctxt")).split()[1])


@pytest.mark.parametrize("flag", ["--version", "-v"])
def test_the_version_says_that_it_is_a_stand_in(flag: str) -> None:
    done = subprocess.run(
        command(flag), env=environment(BASE), capture_output=True, text=True, check=True
    )
    assert done.stdout == "0.17.1+standin\n"


@pytest.mark.parametrize(
    "arguments", [("serve", "x", "--bogus", "1"), ("serve", "x", "--hos", "a")]
)
def test_an_unknown_or_shortened_flag_exits_with_2(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        command(*arguments), env=environment(BASE), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "unrecognized arguments" in done.stderr


def test_help_names_the_flags_that_do_nothing() -> None:
    done = subprocess.run(
        command("serve", "--help"),
        env=environment(BASE),
        capture_output=True,
        text=True,
        check=True,
    )
    ignored = done.stdout.split("flags without effect here:")[1]
    assert "--gpu-memory-utilization" in ignored
    assert "--tensor-parallel-size" not in ignored


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--tensor-parallel-size", "3"], "1, 2 or 4 ranks, not 3"),
        (["-tp", "2", "--nnodes", "3"], "must be divisible by nnodes (3)"),
        (["--max_model_len", "100000"], "greater than the derived max_model_len"),
        (["--chat-template", "/nowhere.jinja"], "failed to be opened"),
        (["--headless"], "--headless belongs on every node but the first"),
        (["-tp", "2", "-n", "2", "-r", "1"], "--headless belongs on every node but the first"),
    ],
)
def test_flags_that_do_not_fit_end_the_server_with_a_reason(
    package: Path, flags: list[str], problem: str
) -> None:
    done = subprocess.run(
        command("serve", str(LAB / "model"), *flags),
        env=environment(package),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert problem in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_the_launcher_sets_the_fabric_and_becomes_the_command() -> None:
    done = subprocess.run(
        ["bash", LAUNCHER, "--role", "node", *NEEDED, "--head-ip", "127.0.0.2", "--", "env"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert (
        found.items()
        >= {
            "VLLM_HOST_IP": "127.0.0.3",
            "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_IB_HCA": "rocep1s0f0,roceP2p1s0f0",
            "NCCL_IB_DISABLE": "0",
            "GLOO_SOCKET_IFNAME": "lo",
            "TP_SOCKET_IFNAME": "lo",
            "UCX_NET_DEVICES": "lo",
            "MN_IF_NAME": "lo",
            "OMPI_MCA_btl_tcp_if_include": "lo",
        }.items()
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--role", "node", *NEEDED, "--", "true"],  # a node needs --head-ip
        ["--role", "head", *NEEDED],
        ["--role", "head", *NEEDED, "--"],
        ["--role", "head", "--host-ip", "127.0.0.3", "--eth-if", "lo", "--", "true"],
        ["--role", "chief", *NEEDED, "--", "true"],
        ["--role", "head", *NEEDED, "--bogus", "1", "--", "true"],
        ["--role"],
        [],
    ],
)
def test_the_launcher_explains_itself_when_an_argument_is_missing(arguments: list[str]) -> None:
    done = subprocess.run(
        ["bash", LAUNCHER, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "usage: run-cluster-node.sh --role head|node" in done.stderr
