from __future__ import annotations

from deploy.errors import RankEnd
from deploy.scene import NodeScene, Process, Socket, has_met, node_scene, sockets
from deploy.showing import shown
from tests.unit.deploy.scenes import CALLED, HEAD_IP, LISTENING, MEETING, WORKER_IP, rank

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0CC8A8C0:733D 00000000:0000 0A 00000000:00000001 00:00000000 00000000     0        0 1 1
   1: 0CC8A8C0:733D 0DC8A8C0:9C40 01 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 0CC8A8C0:9C41 0DC8A8C0:B26E 02 000016A8:00000000 01:00000064 00000003     0        0 3 1
   3: garbage
"""

TOLD = (
    "\x1estat\n"
    "7 (VLLM::Worker_TP) S 1 7 7 0 -1 4194560 1 2 3 4 500 100 0 0 20 0 1 0 9\n"
    "8 (odd) name)) R 7 7 7 0 -1 4194560 1 2 3 4 10 0 0 0 20 0 1 0 9\n"
    "\x1etitles\n7\tVLLM::Worker_TP1   \n8\t\n"
    "\x1esockets\n" + TABLE + "\x1ememory\n"
    "MemTotal:       1000 kB\nMemFree:   1 kB\nMemAvailable:    500 kB\nHugePages_Total:  0\n"
    "\x1edisks\n/\t/dev/nvme0n1p2 1000 900 100 90% /\n/gone\t\n"
    "\x1egpu\n4711, VLLM::Worker_TP1\n\n"
    "\x1estat again\n"
    "7 (VLLM::Worker_TP) D 1 7 7 0 -1 4194560 1 2 3 4 550 140 0 0 20 0 1 0 9\n"
    "\x1eend\n"
)


def test_sockets_are_read_from_the_kernels_table() -> None:
    listening, met, stuck = sockets(TABLE.splitlines())
    assert listening == LISTENING
    assert met == Socket(HEAD_IP, 29501, WORKER_IP, 40000, "ESTABLISHED")
    assert stuck.text == (
        "SYN-SENT 192.168.200.12:40001 -> 192.168.200.13:45678, 5800 bytes unacknowledged, "
        "sent again 3 times"
    )


def test_a_worker_has_met_the_head_once_it_is_connected_to_the_master_port() -> None:
    assert has_met([LISTENING, CALLED], MEETING)
    assert not has_met([], MEETING)
    assert not has_met(sockets(TABLE.splitlines()), MEETING)


def test_a_nodes_account_of_itself_is_read() -> None:
    scene = node_scene(TOLD)
    assert scene.processes == (
        Process(7, "VLLM::Worker_TP1", "D", 90),
        Process(8, "odd) name)", "R", None),
    )
    assert len(scene.sockets) == 3
    assert (scene.memory_bytes, scene.available_bytes) == (1_024_000, 512_000)
    assert scene.disks == (("/", 102_400),)
    assert scene.gpu_processes == ("4711, VLLM::Worker_TP1",)


def test_a_node_that_tells_nothing_gives_no_facts_and_no_failure() -> None:
    assert node_scene("") == NodeScene()


def test_what_a_node_shows_of_a_rank_is_told_in_lines() -> None:
    assert list(shown(rank(1))) == [
        "process: 7 S VLLM::Worker_TP1, 20 % of a core",
        "socket: ESTABLISHED 192.168.200.13:40000 -> 192.168.200.12:29501",
        "memory: 100.0 GB of 128.0 GB available",
        "disk: 500.0 GB free at /",
    ]
    many = tuple(Process(pid, "python", "S") for pid in range(9))
    lines = list(shown(rank(0, processes=many, paused=True, restarts=2, error="no", fault="lost")))
    assert lines[:4] == [
        "more could not be asked: lost",
        "engine: no",
        "the container is paused",
        "the engine started it again 2 times",
    ]
    assert "process: and 3 more" in lines


def test_a_rank_that_cannot_be_asked_says_why_and_no_more() -> None:
    end = RankEnd("spark-b", 1, "c", None, out_of_memory=False, log="", fault="it is gone")
    assert end.message().what == "it is gone"
    assert end.message().detail == ""


def test_how_far_a_rank_came_is_hinted_at_by_its_own_log() -> None:
    log = (
        "(Worker_TP1 pid=7) INFO 01-30 [worker.py:1] Starting to load model /m...",
        "(Worker_TP1 pid=7) INFO 01-30 [worker.py:1] Loading weights took 61.20 seconds",
        "(Worker_TP1 pid=7) INFO 01-30 [x.py:1] of something else",
    )
    assert "by its log: it has loaded the weights" in list(shown(rank(1, log=log)))
