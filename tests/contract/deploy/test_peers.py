"""The program that nodes run to try the ways between them, over this machine's loopback."""

from __future__ import annotations

import json
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from deploy.edges.links import PROGRAM
from tests.contract.deploy.conftest import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

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
