"""Copying between nodes by their own python3: both are this machine, over a real sshd."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from ipaddress import IPv4Address
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

import deploy.onnode
from builder.digest import digest_bytes
from builder.edges.hub_login import HubLogin
from builder.lock import ModelFile
from deploy import weights_errors
from deploy.actions import CopyModel
from deploy.edges import weights
from deploy.edges.model import ModelFolder, staged_name
from deploy.edges.programs_on_node import running
from deploy.edges.ssh import NodeConnection
from deploy.edges.transfer import Watch, hashes
from deploy.edges.weights import NodeWeights
from deploy.node_errors import NodeLostError
from deploy.onnode.receiving import RANGE_BYTES
from deploy.replaced import NOBODY
from tests.contract.deploy.conftest import Sshd, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.lab
QUIET = Watch(told=lambda _: None, stopped=lambda: False)
LONG = 6 * 2**30
BIG = RANGE_BYTES + 12345


def node(connection: NodeConnection, folder: Path) -> NodeWeights:
    described: Any = SimpleNamespace(
        name=folder.name, fabric=SimpleNamespace(address=IPv4Address("127.0.0.1"))
    )
    nothing: Any = None
    files = ModelFolder(connection, str(folder))
    return NodeWeights(nothing, described, connection, nothing, files)


@pytest.fixture
def source(connection: NodeConnection, tmp_path: Path) -> NodeWeights:
    (tmp_path / "spark-a").mkdir()
    return node(connection, tmp_path / "spark-a")


@pytest.fixture
def target(connection: NodeConnection, tmp_path: Path) -> NodeWeights:
    return node(connection, tmp_path / "spark-b")


def write(folder: Path, **sizes: int) -> tuple[ModelFile, ...]:
    files = []
    for name, size in sizes.items():
        data = os.urandom(size)
        (folder / name).write_bytes(data)
        files.append(ModelFile(path=name, size_bytes=size, digest=digest_bytes(data)))
    return tuple(files)


def copy(*files: ModelFile) -> CopyModel:
    return CopyModel("spark-b", "why", "spark-a", "image", files)


def inbox(tmp_path: Path) -> dict[str, bytes]:
    folder = tmp_path / "spark-b/.sparklock/in"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_are_copied_whole_and_proven(
    source: NodeWeights, target: NodeWeights, tmp_path: Path
) -> None:
    files = write(tmp_path / "spark-a", big=BIG, small=3, empty=0)
    told: list[int] = []
    sent = target.copy(copy(*files), source, Watch(told.append, stopped=lambda: False))
    assert sent == BIG + 3
    assert told[-1] == sent
    assert {name: digest_bytes(data) for name, data in inbox(tmp_path).items()} == {
        staged_name(file): file.digest for file in files
    }
    assert target.copy(copy(*files), source, QUIET) == 0
    target.folder.place(files, (), NOBODY)
    assert (tmp_path / "spark-b/big").read_bytes() == (tmp_path / "spark-a/big").read_bytes()


def test_a_copy_that_was_cut_goes_on_where_it_was(
    source: NodeWeights, target: NodeWeights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "CONNECTIONS", 1)  # so the ranges come one after the other
    (file,) = write(tmp_path / "spark-a", big=BIG)
    whole = (tmp_path / "spark-a/big").read_bytes()
    os.truncate(tmp_path / "spark-a/big", RANGE_BYTES + 1)
    with pytest.raises(weights_errors.CopyLostError, match="goes on where it was"):
        target.copy(copy(file), source, QUIET)
    assert set(inbox(tmp_path)) == {f"{staged_name(file)}.part", f"{staged_name(file)}.part.ranges"}
    (tmp_path / "spark-a/big").write_bytes(whole)
    assert target.copy(copy(file), source, QUIET) == BIG - RANGE_BYTES
    assert list(inbox(tmp_path)) == [staged_name(file)]


def holders(path: Path) -> list[int]:
    """The processes that have a file open, this one left out."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if link.readlink() == path:
                found.add(int(link.parts[2]))
        except OSError:
            continue
    return sorted(found - {os.getpid()})


@pytest.fixture
def long_one(tmp_path: Path) -> ModelFile:
    """A file whose copy takes seconds; it is full of holes, so it takes no room at its source."""
    (tmp_path / "spark-a").mkdir(exist_ok=True)
    with (tmp_path / "spark-a/long").open("wb") as stream:
        stream.truncate(LONG)
    return ModelFile(path="long", size_bytes=LONG, digest=digest_bytes(b"another"))


def once_at_work(tmp_path: Path, file: ModelFile, act: Callable[[], object]) -> Watch:
    """A watch that acts once, when a range has come."""
    noted = tmp_path / "spark-b/.sparklock/in" / f"{staged_name(file)}.part.ranges"
    acted: list[object] = []

    def look() -> bool:
        if not acted and noted.exists() and noted.stat().st_size:
            acted.append(act())
        return False

    return Watch(told=lambda _: None, stopped=look)


def test_a_server_that_is_killed_is_told_and_leaves_what_came(
    source: NodeWeights, target: NodeWeights, tmp_path: Path, long_one: ModelFile
) -> None:
    def kill() -> None:
        for pid in holders(tmp_path / "spark-a/long"):
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(weights_errors.CopyLostError):
        target.copy(copy(long_one), source, once_at_work(tmp_path, long_one, kill))
    assert (tmp_path / "spark-b/.sparklock/in" / f"{staged_name(long_one)}.part").exists()


def test_with_the_connection_both_ends_of_a_copy_end(
    sshd: Sshd, tmp_path: Path, long_one: ModelFile
) -> None:
    part = tmp_path / "spark-b/.sparklock/in" / f"{staged_name(long_one)}.part"
    with NodeConnection(sshd.destination()) as one, NodeConnection(sshd.destination()) as other:
        watch = once_at_work(tmp_path, long_one, other._master.process.kill)
        source, target = node(one, tmp_path / "spark-a"), node(other, tmp_path / "spark-b")
        with pytest.raises(NodeLostError):
            target.copy(copy(long_one), source, watch)
    assert part.exists()
    until(lambda: not holders(part) and not holders(tmp_path / "spark-a/long"))


def test_what_an_earlier_copy_left_wrong_is_fetched_again(
    source: NodeWeights, target: NodeWeights, tmp_path: Path
) -> None:
    (file,) = write(tmp_path / "spark-a", big=BIG)
    target.folder.begin()
    part = tmp_path / "spark-b/.sparklock/in" / f"{staged_name(file)}.part"
    part.write_bytes(bytes(BIG))
    part.with_name(f"{part.name}.ranges").write_text("0\n1\n")
    assert target.copy(copy(file), source, QUIET) == BIG
    assert digest_bytes(inbox(tmp_path)[staged_name(file)]) == file.digest


def test_a_file_that_changed_at_its_source_is_refused(
    source: NodeWeights, target: NodeWeights, tmp_path: Path
) -> None:
    files = write(tmp_path / "spark-a", big=BIG, small=5)
    (tmp_path / "spark-a/big").write_bytes(os.urandom(BIG))
    with pytest.raises(weights_errors.CopyDamagedError, match="big"):
        target.copy(copy(files[0]), source, QUIET)
    assert inbox(tmp_path) == {}


def test_a_file_that_became_shorter_ends_the_copy(
    source: NodeWeights, target: NodeWeights, tmp_path: Path
) -> None:
    files = write(tmp_path / "spark-a", big=BIG)
    os.truncate(tmp_path / "spark-a/big", 100)
    with pytest.raises(weights_errors.CopyLostError):
        target.copy(copy(*files), source, QUIET)


def test_a_folder_that_cannot_be_written_is_told_before(
    connection: NodeConnection, tmp_path: Path
) -> None:
    def obstacle(path: Path, *files: str) -> tuple[str, str]:
        found = [ModelFile(path=file, size_bytes=1, digest=digest_bytes(b"")) for file in files]
        met = ModelFolder(connection, str(path)).readiness(found)[0]
        return (met.kind, met.path) if met else ("", "")

    assert obstacle(tmp_path / "a/b", "c") == ("", "")
    assert obstacle(Path("/proc/sys/a"))[1] == "/proc/sys"
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").symlink_to("absent")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file", "nowhere", "loop"):
        assert obstacle(tmp_path / name / "model") == ("blocked", str(tmp_path / name))
        assert obstacle(tmp_path / name) == ("blocked", str(tmp_path / name))
        assert obstacle(tmp_path, f"{name}/x/y") == ("blocked", str(tmp_path / name))
        assert obstacle(tmp_path, name) == ("", ""), "it is replaced"
    (tmp_path / "-a \"'b").mkdir()
    assert obstacle(tmp_path, "x", "-a \"'b") == ("blocked", str(tmp_path / "-a \"'b"))
    assert obstacle(tmp_path, "-a \"'b/x") == ("", "")


def test_what_lies_beside_the_places_is_counted_by_what_it_takes(target: NodeWeights) -> None:
    assert target.folder.readiness(()) == (None, 0)
    target.folder.begin()
    empty = target.folder.readiness(())[1]
    folder = Path(target.folder.download)
    (folder / "part").write_bytes(b"x" * 2**20)
    with (folder / "sparse").open("wb") as file:
        file.truncate(2**40)
    assert 2**20 <= target.folder.readiness(())[1] - empty < 2**21


def test_of_what_came_from_the_hub_only_the_right_files_are_taken_in(
    target: NodeWeights, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    files = write(tmp_path / "made", right=9, spoilt=9, short=9, absent=9)
    target.folder.begin()
    download = Path(target.folder.download)
    for name in ("right", "spoilt", "short"):
        (download / name).write_bytes((tmp_path / "made" / name).read_bytes())
    (download / "spoilt").write_bytes(b"spoilt...")
    (download / "short").write_bytes(b"short")
    wrong = target.folder.take_in(files)
    assert [file.path for file in wrong] == ["spoilt", "short"]
    assert list(inbox(tmp_path)) == [staged_name(files[0])]
    assert list(download.iterdir()) == []
    assert [file.path for file in target.folder.missing(files)] == ["spoilt", "short", "absent"]


def test_a_hub_of_plain_http_on_the_network_is_refused(target: NodeWeights) -> None:
    login = HubLogin("http://hub.example:80", "hush")
    with pytest.raises(weights_errors.PlainHubError) as caught, target._endpoint(login):
        pass
    assert "hush" not in str(caught.value)


def test_a_hub_on_our_loopback_comes_through_the_connection(target: NodeWeights) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with target._endpoint(HubLogin(f"http://localhost:{port}/hf", None)) as endpoint:
            assert endpoint.endswith("/hf")
            there = urlsplit(endpoint)
            assert (there.hostname, there.port != port) == ("127.0.0.1", True)
            with socket.create_connection(("127.0.0.1", int(there.port or 0))):
                listener.accept()[0].close()


@pytest.fixture
def served(connection: NodeConnection, tmp_path: Path) -> Iterator[int]:
    """A server of one file with the secret `hush`, at a port."""
    (tmp_path / "file").write_bytes(b"0123456789")
    asked = {"address": "127.0.0.1", "secret": "hush", "paths": [str(tmp_path / "file")]}
    with running(connection, "serving", asked) as program:
        yield next(program.told(lambda: False))["port"]


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"hush\n0 2 3\n0 0 1\n", b"2340"),
        *((sent, b"") for sent in (b"wrong\n0 2 3\n", b"\n0 2 3\n", b"hus", b"h" * 10_000)),
        *((b"hush\n" + asked, b"") for asked in (b"1 0 1\n", b"-1 0 1\n", b"0 -1 1\n", b"x\n")),
        (b"hush\n0 8 5\n", b"89"),
    ],
)
def test_only_listed_files_are_served_and_only_to_who_knows_the_secret(
    served: int, sent: bytes, answer: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", served)) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        found = b""
        while data := _received(client):
            found += data
    assert found == answer


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(1000)
    except ConnectionResetError:
        return b""


def test_a_server_ends_with_its_connection(connection: NodeConnection, tmp_path: Path) -> None:
    asked = {"address": "127.0.0.1", "secret": "hush", "paths": [str(tmp_path)]}
    with running(connection, "serving", asked) as program:
        port = next(program.told(lambda: False))["port"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_hashes_are_those_of_the_bytes(connection: NodeConnection, tmp_path: Path) -> None:
    names = ["a", "with space", "ü", "line\nbreak"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode() * 100_000)
    paths = [str(tmp_path / name) for name in names]
    assert hashes(connection, paths) == {
        path: digest_bytes(Path(path).read_bytes()) for path in paths
    }


def test_the_receiver_refuses_a_disk_that_is_too_small(tmp_path: Path) -> None:
    program = Path(deploy.onnode.__file__).with_name("receiving.py")
    file = {"name": "a", "size": 2**43, "sha256": "0" * 64}
    asked = {"folder": str(tmp_path), "files": [file], "connections": 1}
    argv = [sys.executable, str(program)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        told = json.loads(process.stdout.readline())
    assert (told["error"], told["needed"]) == ("space", 2**43)
    assert list(tmp_path.iterdir()) == []
