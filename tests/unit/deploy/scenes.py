"""Starts on paper: two ranks over a fabric, as their nodes would show them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.scene import NodeScene, Process, RankScene, Scene, Socket, Stage
from deploy.serving import MeetingPoint, ServingAddress
from deploy.state import Completion, Outcome, RankIdentity, RankState

HEAD_IP, WORKER_IP, MASTER = "192.168.200.12", "192.168.200.13", 29501
MEETING = MeetingPoint(HEAD_IP, MASTER)
IDENTITY = RankIdentity("c0ffee", "sha256:1", (), "2026-01-01T00:00:00Z")
LISTENING = Socket(HEAD_IP, MASTER, "0.0.0.0", 0, "LISTEN")  # noqa: S104 - on paper
CALLED = Socket(WORKER_IP, 40000, HEAD_IP, MASTER, "ESTABLISHED")
ACCEPTED = Socket(HEAD_IP, MASTER, WORKER_IP, 40000, "ESTABLISHED")
GB = 10**9


def rank(number: int, **changes: Any) -> RankScene:  # noqa: ANN401 - any field
    """A rank that runs; `code` makes it one that has ended."""
    address = WORKER_IP if number else HEAD_IP
    code = changes.pop("code", None)
    state = RankState(code is None, code or 0, "", False, IDENTITY, host_ip=address)  # noqa: FBT003
    kernel = NodeScene(
        sockets=(CALLED,) if number else (LISTENING, ACCEPTED),
        processes=(Process(7, f"VLLM::Worker_TP{number}", "S", 20),),
        memory_bytes=128 * GB,
        available_bytes=100 * GB,
        disks=(("/", 500 * GB),),
    )
    known = {name: changes.pop(name) for name in tuple(changes) if hasattr(kernel, name)}
    own = {name: changes.pop(name) for name in tuple(changes) if hasattr(state, name)}
    scene = RankScene(
        node="spark-b" if number else "spark-a",
        rank=number,
        container=f"sparklock-pair-g1-r{number}.trial",
        state=replace(state, **own),
        kernel=replace(kernel, **known),
    )
    return replace(scene, **changes)


def scene(*ranks: RankScene, stage: Stage = Stage.STARTED, answer: str = "") -> Scene:
    """A start; ranks that are not given run well."""
    given = {item.rank: item for item in ranks}
    return Scene(
        stage=stage,
        ranks=tuple(given.get(number, rank(number)) for number in (0, 1)),
        serving=ServingAddress("127.0.0.1", 8000, "m"),
        meeting=MEETING,
        answer=Completion(Outcome.FAILED if answer else Outcome.NOT_UP, answer),
    )
