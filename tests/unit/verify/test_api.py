"""The API over a real Unix socket, with servers that answer, stall, trickle and hang up."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from verify.edges.api import Api
from verify.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Behaviour = Callable[[socket.socket], None]


@contextmanager
def server(folder: Path, behaviour: Behaviour) -> Iterator[Api]:
    path = folder / "api"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with listener.accept()[0] as connection:
                request = connection.makefile("rb")
                lines = list(iter(request.readline, b"\r\n"))
                lengths = [line.split()[1] for line in lines if line.startswith(b"Content-Length")]
                request.read(sum(int(length) for length in lengths))
                behaviour(connection)

        thread = Thread(target=serve)
        thread.start()
        yield Api(path)
        thread.join(timeout=10)
        assert not thread.is_alive()


def says(status: str, body: str) -> Behaviour:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
    return lambda connection: connection.sendall((head + body).encode())


def until_cut(connection: socket.socket) -> None:
    assert connection.recv(1) == b""


def trickle(connection: socket.socket) -> None:
    try:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.02)
    except OSError:
        return


def test_an_object_is_given_back(tmp_path: Path) -> None:
    with server(tmp_path, says("200 OK", '{"version": "0.17.1"}')) as api:
        assert api.get("/version", deadline_s=5) == {"version": "0.17.1"}


@pytest.mark.parametrize(
    ("status", "body"),
    [("500 Internal Server Error", "{}"), ("200 OK", "[]"), ("200 OK", "ok"), ("204 No", "")],
)
def test_anything_else_is_an_error_that_quotes_it(tmp_path: Path, status: str, body: str) -> None:
    with (
        server(tmp_path, says(status, body)) as api,
        pytest.raises(ApiError, match=f"HTTP {status[:3]}: ") as caught,
    ):
        api.post("/v1/completions", {"prompt": "x"}, deadline_s=5)
    assert body in caught.value.problem


@pytest.mark.parametrize("behaviour", [until_cut, trickle])
def test_the_deadline_holds_for_silence_and_for_bytes_that_trickle(
    tmp_path: Path, behaviour: Behaviour
) -> None:
    began = time.monotonic()
    with (
        server(tmp_path, behaviour) as api,
        pytest.raises(ApiError, match="the deadline is over"),
    ):
        api.get("/slow", deadline_s=0.3)
    assert 0.3 <= time.monotonic() - began < 5


def test_a_server_that_hangs_up_is_an_error_before_the_deadline(tmp_path: Path) -> None:
    with (
        server(tmp_path, lambda _: None) as api,
        pytest.raises(ApiError, match=r"ended without an answer \(RemoteDisconnected\)"),
    ):
        api.get("/version", deadline_s=60)


def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match=r"ended without an answer \(FileNotFoundError\)"):
        Api(tmp_path / "none").get("/version", deadline_s=5)
