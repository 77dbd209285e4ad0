"""What nodes run to try the ways between them, over this machine's loopback."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from deploy.edges.links import PING, PROGRAM
from deploy.links import Ping, pings
from tests.contract.deploy.conftest import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

A, B = "127.0.0.2", "127.0.0.3"


class Program:
    """One node's program, spoken to by lines."""

    def __init__(self) -> None:
        argv = ["python3", "-I", "-c", PROGRAM.read_text()]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, question: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def end(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        status = self.process.wait(10)
        self.process.stdout.close()
        return status


@pytest.fixture
def programs() -> Iterator[tuple[Program, Program]]:
    pair = (Program(), Program())
    yield pair
    assert [program.end() for program in pair] == [0, 0]


def question(peer: dict[str, Any], size: int = 8972) -> list[dict[str, Any]]:
    return [{"source": A, "target": B, "size": size, **peer}]


def test_packets_and_connections_come_through_in_full_size(
    programs: tuple[Program, Program],
) -> None:
    ours, theirs = programs
    ours.ask([[A, []]])
    port = free_port()
    peer = theirs.ask([[B, [port]]])[B]
    assert port in peer["tcp"]
    told = ours.ask(question(peer))[f"{A} {B}"]
    theirs.ask([])
    assert (told["small"], told["full"]) == ("answered", "answered")
    assert told["tcp"] == {str(number): "connected" for number in peer["tcp"]}


def test_a_port_that_somebody_has_is_tried_all_the_same(programs: tuple[Program, Program]) -> None:
    ours, theirs = programs
    ours.ask([[A, []]])
    with socket.create_server((B, 0)) as server:
        taken = server.getsockname()[1]
        peer = theirs.ask([[B, [taken]]])[B]
        told = ours.ask(question(peer))[f"{A} {B}"]
    theirs.ask([])
    assert told["tcp"][str(taken)] == "connected"


def test_a_port_where_nothing_listens_and_a_packet_too_large_are_told(
    programs: tuple[Program, Program],
) -> None:
    ours, theirs = programs
    ours.ask([[A, []]])
    peer = theirs.ask([[B, []]])[B]
    told = ours.ask(question(peer | {"tcp": [free_port()]}, size=65508))[f"{A} {B}"]
    theirs.ask([])
    assert list(told["tcp"].values()) == ["Connection refused"]
    assert (told["small"], told["full"]) == ("answered", "Message too long")


def test_an_address_that_is_not_there_is_told(programs: tuple[Program, Program]) -> None:
    ours, theirs = programs
    assert ours.ask([["192.0.2.1", []]]) == {
        "192.0.2.1": {"problem": "Cannot assign requested address"}
    }
    theirs.ask([])
    for program in programs:
        program.ask([])


def pinged(path: str, *ways: str) -> dict[tuple[str, str], Ping]:
    done = subprocess.run(
        ["/bin/sh", "-s", "--", *ways],
        input=PING.read_bytes(),
        env={"PATH": path},
        capture_output=True,
        check=True,
    )
    return pings(done.stdout.decode())


def test_ping_over_loopback_answers_at_full_size_and_to_nobody_elses_address() -> None:
    if shutil.which("ping") is None:
        pytest.skip("no ping on this machine: apt install iputils-ping")
    found = pinged(os.environ["PATH"], A, B, "8972", "192.0.2.1", B, "8972")
    assert (found[A, B].full, found[A, B].small) == (0, 0)
    assert found["192.0.2.1", B].small not in {0, 1}


def test_a_node_without_ping_says_so(tmp_path: Path) -> None:
    for name in ("tr", "printf"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    assert pinged(str(tmp_path), A, B, "8972")[A, B].small == 127


def test_a_ping_that_loses_large_packets_is_asked_again_with_small_ones(tmp_path: Path) -> None:
    """The ping is a stand-in: no network here loses large packets only."""
    ping = tmp_path / "ping"
    ping.write_text('#!/bin/sh\ncase "$*" in *" -M do -s 8972 "*) echo lost; exit 1; esac\n')
    ping.chmod(0o755)
    found = pinged(f"{tmp_path}:{os.environ['PATH']}", A, B, "8972", B, A, "1000")
    assert found == {(A, B): Ping(1, 0, "lost"), (B, A): Ping(0, 0, "")}
