from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.diagnosis import diagnose
from deploy.scene import Process, Socket, Stage
from deploy.serving import MeetingPoint
from tests.unit.deploy.scenes import (
    ACCEPTED,
    CALLED,
    GB,
    HEAD_IP,
    LISTENING,
    MASTER,
    WORKER_IP,
    rank,
    scene,
)

DATA = Path(__file__).parents[2] / "data"
NCCL = DATA / "nccl"

VLLM = "(EngineCore_DP0 pid=42) ERROR 01-30 12:00:00 [core.py:936] "

WORDS = [
    tuple(pair.splitlines())
    for pair in (DATA / "last_words.txt").read_text().strip().split("\n\n")[1:]
]


@pytest.mark.parametrize(("line", "what"), WORDS)
def test_a_rank_that_ended_tells_its_cause_in_its_log(line: str, what: str) -> None:
    ended = rank(1, code=1, first=True, log=("INFO all is well", VLLM + line, "more"))
    verdict = diagnose(scene(ended))
    assert verdict.known
    assert verdict.rank == 1
    assert verdict.what.startswith("rank 1 on spark-b ")
    assert what in verdict.what
    assert line[:60] in verdict.evidence[0]
    assert verdict.remedy


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("bogus-ifname.log", "no interface of the name in NCCL_SOCKET_IFNAME"),
        ("net-ib-required.log", "no RDMA device that NCCL can use"),
    ],
)
def test_nccls_own_failures_are_told(file: str, what: str) -> None:
    lines = tuple((NCCL / file).read_text().splitlines())
    assert what in diagnose(scene(rank(0, code=1, first=True, log=lines))).what


@pytest.mark.parametrize("file", ["plain.log", "bogus-hca.log"])
def test_nccls_talk_of_a_run_that_went_well_is_no_cause(file: str) -> None:
    lines = tuple((NCCL / file).read_text().splitlines())
    assert not diagnose(scene(rank(0, code=1, first=True, log=lines))).known


def test_the_cause_of_one_rank_weighs_more_than_what_another_lost_by_it() -> None:
    head = rank(0, code=1, log=(VLLM + "RuntimeError: Connection closed by peer",))
    worker = rank(1, code=1, log=(VLLM + "ValueError: No available memory for the cache blocks",))
    assert diagnose(scene(head, worker)).rank == 1


def test_a_rank_that_runs_may_tell_of_a_module_that_it_can_do_without() -> None:
    line = "WARNING: ModuleNotFoundError: No module named 'flash_attn'"
    assert "flash_attn" not in diagnose(scene(rank(0, log=(line,)), stage=Stage.MET)).what


def test_what_a_rank_lost_is_told_when_nobody_knows_a_cause() -> None:
    line = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2"
    verdict = diagnose(scene(rank(0, code=1, first=True, log=(line,))))
    assert "waited in vain" in verdict.what


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"code": 137, "out_of_memory": True}, "the node ran out of memory"),
        ({"code": 137}, "killed from outside: by a person, or by the kernel"),
        ({"code": 139}, "segmentation fault"),
        ({"code": 143}, "SIGTERM"),
        ({"code": 127}, "did not find its program"),
        ({"code": 128, "error": 'OCI runtime create failed: exec: "./run-cluster-node.sh": stat '
          "./run-cluster-node.sh: no such file or directory: unknown"},
         "was not started: the image has no ./run-cluster-node.sh"),
    ],
)  # fmt: skip
def test_the_end_of_a_rank_is_told_when_its_log_is_silent(
    changes: dict[str, object], what: str
) -> None:
    verdict = diagnose(scene(rank(1, first=True, **changes)))
    assert what in verdict.what
    assert verdict.rank == 1


def test_a_rank_that_cannot_be_asked_is_told_before_the_others_ends() -> None:
    gone = replace(rank(1), state=None, fault="the connection to the node broke")
    verdict = diagnose(scene(rank(0, code=1), gone))
    assert verdict.what == "rank 1 on spark-b is gone, or its node is"
    assert "connection to the node broke" in verdict.evidence[0]


def test_a_container_that_was_never_started_is_told() -> None:
    item = rank(1, code=0)
    assert item.state is not None
    created = replace(item.state, identity=replace(item.state.identity, started_at=""))
    assert "was never started" in diagnose(scene(replace(item, state=created))).what


def test_an_end_that_no_rule_knows_is_said_to_be_unknown() -> None:
    verdict = diagnose(scene(rank(1, code=1, first=True, log=("bye",))))
    assert not verdict.known
    assert "why, no rule knows" in verdict.what
    assert verdict.evidence == ("node spark-b, rank 1: exit code 1", "node spark-b, rank 1: bye")
    both = diagnose(scene(rank(0, code=1), rank(1, code=1)))
    assert "all ranks ended between two looks" in both.what
    assert both.rank is None


CALLING = Socket(WORKER_IP, 40000, HEAD_IP, MASTER, "SYN-SENT", retries=3)
STUCK = replace(CALLED, remote_port=45678, unsent_bytes=5800, retries=4)


@pytest.mark.parametrize(
    ("ranks", "what", "named"),
    [
        ([rank(1, paused=True)], "container is paused", 1),
        ([rank(1, processes=(Process(7, "VLLM::Worker_TP1", "T"),))], "is frozen", 1),
        ([rank(1, disks=(("/dev/shm", 4096),))], "no room left at /dev/shm", 1),  # noqa: S108
        ([rank(1, sockets=(CALLING,))], "gets no answer from 192.168.200.12:29501", 1),
        ([rank(0, host_ip="127.0.1.1", sockets=(LISTENING,))], "calls itself 127.0.1.1", 0),
        (
            [rank(0, sockets=()), rank(1, sockets=())],
            "rank 0 on spark-a, which does not listen on 192.168.200.12:29501 yet",
            0,
        ),
        (
            [rank(0, sockets=(replace(LISTENING, local="10.0.0.5"),)), rank(1, sockets=())],
            "listens on 10.0.0.5 and not on 192.168.200.12:29501",
            0,
        ),
        ([rank(1, sockets=())], "the head listens, and this rank has not called it", 1),
    ],
)
def test_ranks_that_have_not_met_wait_for(ranks: list[object], what: str, named: int) -> None:
    verdict = diagnose(scene(*ranks))  # type: ignore[arg-type] # a table of ranks
    assert what in verdict.what
    assert verdict.rank == named
    assert verdict.evidence


@pytest.mark.parametrize(
    ("ranks", "what"),
    [
        ([rank(1, sockets=(CALLED, STUCK))], "the network: what rank 1 on spark-b sends"),
        ([rank(1, sockets=())], "rank 1 on spark-b, which has lost all connections"),
        ([rank(1, available_bytes=GB)], "memory: the node of rank 1"),
        (
            [rank(n, processes=(Process(7, "x", "S", 1),)) for n in (0, 1)],
            "one another: the ranks have met and all are idle, a deadlock",
        ),
        ([rank(1, processes=(Process(7, "x", "D", 5),))], "a device: rank 1"),
        ([rank(1, processes=(Process(7, "x", "R", 100),))], "rank 1 on spark-b is busy"),
    ],
)
def test_ranks_that_have_met_and_do_not_come_up_wait_for(ranks: list[object], what: str) -> None:
    verdict = diagnose(scene(*ranks, stage=Stage.MET))  # type: ignore[arg-type] # a table of ranks
    assert what in verdict.what


def test_a_server_that_is_up_and_does_not_complete_waits_for() -> None:
    said = diagnose(scene(stage=Stage.API, answer="HTTP 500: the engine is dead"))
    assert said.what == "no rank: the server answers, and not with a completion"
    assert said.evidence == ("HTTP 500: the engine is dead",)
    silent = diagnose(scene(stage=Stage.API))
    assert "the API is up and no completion comes" in silent.what


def test_a_master_address_that_is_loopback_is_told() -> None:
    here = replace(scene(rank(1, sockets=())), meeting=MeetingPoint("127.0.0.1", MASTER))
    assert "every node's own address" in diagnose(here).what


def test_what_fits_no_rule_is_not_made_up() -> None:
    quiet = rank(0, processes=(Process(7, "x", "S", 40),), sockets=(LISTENING, ACCEPTED))
    verdict = diagnose(scene(quiet, stage=Stage.MET))
    assert not verdict.known
    assert verdict.what == "no known cause fits what the nodes show"
    assert verdict.evidence[0] == "stage reached: the ranks have met"
    assert "most probably" not in verdict.message("nothing").found


def test_a_head_that_lost_its_worker_says_so_and_the_worker_is_told_when_it_ended_first() -> None:
    log = tuple((DATA / "vllm/head-lost-worker.log").read_text().splitlines())
    alone = diagnose(scene(rank(0, code=1, first=True, log=log)))
    assert "rank 0 on spark-a lost the connection to another rank" in alone.what
    both = diagnose(scene(rank(0, code=1, log=log), rank(1, code=137)))
    assert both.rank == 1


def test_a_real_start_that_went_well_gives_no_rule_a_cause() -> None:
    ranks = [
        rank(number, log=tuple((DATA / f"vllm/{name}.log").read_text().splitlines()))
        for number, name in enumerate(("head", "worker"))
    ]
    assert not diagnose(scene(*ranks, stage=Stage.MET)).known
    ended = [replace(item, state=rank(item.rank, code=1).state) for item in ranks]
    assert not diagnose(scene(*ended)).known
