"""The program for the nodes as the file that they get, and what its copies say to each other."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from deploy.boot import boot_setup
from deploy.boot_node.engine import Engine
from deploy.boot_node.facts import Config, Memory, Report
from deploy.boot_node.head import ATTEMPTS, Head
from deploy.boot_node.node import Guard, GuardTakenError
from deploy.boot_node.wire import (
    Answering,
    ClosedError,
    OtherSecretError,
    RefusedError,
    There,
    Wire,
)
from deploy.edges.boot import program
from deploy.guard import find_argv, holders_in
from tests.unit.deploy.clusters import document, manifest_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from deploy.boot_node.node import Asked


def config(folder: Path) -> Config:
    peers = (("a", "127.0.0.1"), ("b", "127.0.0.1"))
    return Config("pair", "a", 0, "/none", 1, peers, str(folder), 0.0, 0.0, (0.0,))


def test_the_program_is_one_file_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    assert program() == program()
    file = tmp_path / "boot.pyz"
    file.write_bytes(program())
    argv = [sys.executable, "-I", str(file), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "boot.json" in done.stderr  # it runs, and misses its settings


def test_its_settings_are_what_it_reads() -> None:
    manifest = manifest_of(document())
    setup = boot_setup(manifest, manifest.nodes[1], program())
    settings = next(file for file in setup.files if file.path.endswith("boot.json"))
    read = Config.read(settings.data.decode())
    assert (read.cluster, read.node, read.rank) == ("pair", "spark-b", 1)
    assert read.peers == (("spark-a", "198.18.77.11"), ("spark-b", "198.18.77.12"))
    assert read.port == manifest.serve.master_port + 10


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    manifest = manifest_of(document())
    setup = boot_setup(manifest, manifest.head, b"")
    file = tmp_path / setup.unit
    file.write_bytes(setup.files[-1].data)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert setup.unit not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def speak(first: bytes, second: bytes) -> tuple[Wire, Wire]:
    """Two ends of a connection, each with its secret."""
    one, other = socket.socketpair()
    for end in (one, other):
        end.settimeout(5)
    made: list[Wire] = []
    answering = threading.Thread(target=lambda: made.append(Wire(other, second, asks=False)))
    answering.start()
    asking = Wire(one, first, asks=True)
    answering.join()
    return asking, made[0]


def test_copies_with_one_secret_understand_each_other() -> None:
    asking, answering = speak(b"s", b"s")
    for number in range(3):
        asking.send({"verb": number})
        assert answering.receive() == {"verb": number}
        answering.send({"did": number})
        assert asking.receive() == {"did": number}


def test_a_copy_with_another_secret_is_not_believed() -> None:
    asking, answering = speak(b"s", b"t")
    asking.send({"verb": "stop"})
    with pytest.raises(OtherSecretError):
        answering.receive()


def test_a_line_that_was_heard_once_is_not_believed_again() -> None:
    asking, answering = speak(b"s", b"s")
    asking.send({"verb": "stop"})
    answering.receive()
    asking._sent = 0
    asking.send({"verb": "stop"})
    with pytest.raises(OtherSecretError):
        answering.receive()


@pytest.mark.parametrize("secret", [b"right", b"wrong"])
def test_a_worker_answers_only_who_knows_its_secret(tmp_path: Path, secret: bytes) -> None:
    own = replace(config(tmp_path), node="b", rank=1, port=0)
    with Answering(own, Engine(own), b"right") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked = There("127.0.0.1", replace(own, rank=0, port=server.server_address[1]), secret)
        try:
            if secret == b"right":
                assert "engine does not answer" in asked.ask("report")["problem"]
                with pytest.raises(RefusedError, match="the guard is not held"):
                    asked.ask("stop", "c")
            else:
                with pytest.raises(ClosedError):
                    asked.ask("report")
                assert "another secret" in (tmp_path / "said").read_text()
        finally:
            asked.close()
            server.shutdown()


def test_its_guard_is_the_one_that_deploys_hold_and_tells_who_holds_it(tmp_path: Path) -> None:
    folder = str(tmp_path)
    guard = Guard(config(tmp_path), folder)
    try:
        listed = subprocess.run(find_argv(), capture_output=True, check=False).stdout
        (found,) = holders_in(listed, folder)
        assert found.holder.cluster == "pair"
        assert found.holder.who == "root@a"
        assert (found.holder.pid, found.holder.verb) == (os.getpid(), "boot")
        with pytest.raises(GuardTakenError):
            Guard(config(tmp_path), folder)
    finally:
        guard.close()
    Guard(config(tmp_path), folder).close()


class FakeNode:
    """A node on paper whose rank may refuse to start, or end at once."""

    def __init__(self, name: str, told: list[str], *, fails: str = "") -> None:
        self.report = Report(name, engine="new", generation=3, container=f"c{name}")
        self.told = told
        self.fails = fails

    def ask(self, verb: str, container: str = "") -> dict[str, Any]:
        if verb == "report":
            return asdict(self.report)
        self.told.append(f"{verb} {self.report.node}")
        if verb == "start" and self.fails == "refuses":
            raise OSError("no such device")  # noqa: TRY003, EM101 - the engine's words
        if verb in {"start", "stop"}:
            assert container == self.report.container
            running = verb == "start" and self.fails != "ends"
            changed = {"running": running, "started": verb}
            self.report = Report(**{**asdict(self.report), **changed})
        return {}

    def close(self) -> None:
        self.told.append(f"close {self.report.node}")


class PaperHead(Head):
    """Rank 0's copy over nodes on paper."""

    def __init__(self, folder: Path, nodes: Sequence[FakeNode]) -> None:
        self.nodes = nodes
        up = Memory(3, {"a": "ca", "b": "cb"}, {"a": "e", "b": "e"}, {}, up=True)
        (folder / "memory.json").write_text(json.dumps(asdict(up)))
        super().__init__(config(folder), None, b"")  # type: ignore[arg-type] # no engine is asked

    def _open(self, rank: int) -> Asked:
        return self.nodes[rank]


def test_workers_start_before_the_head_with_all_guards_held(tmp_path: Path) -> None:
    told: list[str] = []
    head = PaperHead(tmp_path, [FakeNode("a", told), FakeNode("b", told)])
    head.round()
    done = [words for words in told if not words.startswith("close")]
    assert done == ["hold a", "hold b", "stop a", "stop b", "start b", "start a"]
    assert told[-2:] == ["close b", "close a"]
    assert "started again" in (tmp_path / "said").read_text()
    told.clear()
    head.round()
    assert told == ["close a", "close b"]  # it only looked


@pytest.mark.parametrize("fails", ["refuses", "ends"])
def test_a_rank_that_does_not_start_is_tried_three_times_and_leaves_nothing_running(
    tmp_path: Path, fails: str
) -> None:
    told: list[str] = []
    nodes = [FakeNode("a", told), FakeNode("b", told, fails=fails)]
    head = PaperHead(tmp_path, nodes)
    for _ in range(ATTEMPTS + 3):
        head.round()
    assert told.count("start b") == ATTEMPTS
    assert not any(node.report.running for node in nodes)
    assert (tmp_path / "said").read_text().startswith("gave up after 3 attempts")
    assert json.loads((tmp_path / "memory.json").read_text())["up"] is False


def test_attempts_are_counted_across_a_restart_of_the_program(tmp_path: Path) -> None:
    told: list[str] = []
    nodes = [FakeNode("a", told), FakeNode("b", told, fails="refuses")]
    PaperHead(tmp_path, nodes).round()
    assert json.loads((tmp_path / "memory.json").read_text())["attempts"] == 1
