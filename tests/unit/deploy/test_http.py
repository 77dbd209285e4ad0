from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from builder.secret import Secret
from deploy.edges.http import complete, unauthorized
from deploy.state import Completion, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[bytes | None], tuple[Path, list[bytes]]]]:
    """Answers one request on a unix socket with given bytes, or never; keeps the request."""
    path, asked, ended = tmp_path / "api", list[bytes](), threading.Event()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer(reply: bytes | None) -> None:
        client, _ = listener.accept()
        with client:
            asked.append(whole_request(client))
            if reply is None:
                ended.wait(10)
            else:
                client.sendall(reply)

    threads: list[threading.Thread] = []

    def start(reply: bytes | None) -> tuple[Path, list[bytes]]:
        threads.append(threading.Thread(target=answer, args=(reply,)))
        threads[-1].start()
        return path, asked

    yield start
    ended.set()
    for thread in threads:
        thread.join()
    listener.close()


def whole_request(client: socket.socket) -> bytes:
    """A request with its body, which may come in a packet of its own."""
    data = b""
    while not data.endswith(b"}"):
        data += client.recv(65536)
    return data


def reply(status: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def completion(text: str, tokens: int) -> bytes:
    return reply("200 OK", {"choices": [{"text": text}], "usage": {"completion_tokens": tokens}})


def test_a_completion_is_asked_for_at_temperature_zero_with_a_few_tokens(
    serve: Callable[[bytes | None], tuple[Path, list[bytes]]],
) -> None:
    path, asked = serve(completion(" Paris", 3))
    found = complete(path, "my-model", timeout_s=10)
    assert (found.outcome, found.text, found.tokens) == (Outcome.ANSWERED, " Paris", 3)
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/completions")
    sent = json.loads(body)
    assert sent["model"] == "my-model"
    assert sent["temperature"] == 0
    assert 1 <= sent["max_tokens"] <= 16


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (reply("404 Not Found", {"message": "no such model"}), Outcome.REFUSED),
        (reply("400 Bad Request", {}), Outcome.REFUSED),
        (reply("500 Internal Server Error", {}), Outcome.FAILED),
        (reply("503 Service Unavailable", {}), Outcome.FAILED),
        (reply("200 OK", {"choices": []}), Outcome.REFUSED),
        (reply("200 OK", ["no", "object"]), Outcome.REFUSED),
        (completion("", 0), Outcome.REFUSED),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<htm>", Outcome.REFUSED),
        (b"", Outcome.NOT_UP),
        (b"garbage\r\n\r\n", Outcome.NOT_UP),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\ncut", Outcome.NOT_UP),
        (None, Outcome.TOO_LATE),
    ],
)
def test_whatever_comes_back_has_an_outcome(
    serve: Callable[[bytes | None], tuple[Path, list[bytes]]],
    answer: bytes | None,
    outcome: Outcome,
) -> None:
    path, _ = serve(answer)
    assert complete(path, "m", timeout_s=0.5).outcome is outcome


def test_what_a_server_said_instead_is_kept(
    serve: Callable[[bytes | None], tuple[Path, list[bytes]]],
) -> None:
    path, _ = serve(reply("404 Not Found", {"message": "no such model"}))
    assert complete(path, "m", timeout_s=5).text == 'HTTP 404: {"message": "no such model"}'


def test_a_socket_where_nobody_listens_is_not_up(tmp_path: Path) -> None:
    assert complete(tmp_path / "none", "m", timeout_s=1).outcome is Outcome.NOT_UP


def test_a_key_goes_along_and_a_server_that_wants_another_is_told_apart(
    serve: Callable[[bytes | None], tuple[Path, list[bytes]]],
) -> None:
    path, asked = serve(reply("401 Unauthorized", {"error": "Unauthorized"}))
    answer = complete(path, "m", timeout_s=5, api_key=Secret("sk-x"))
    assert unauthorized(answer)
    assert b"\r\nAuthorization: Bearer sk-x\r\n" in asked[0]
    assert not unauthorized(Completion(Outcome.REFUSED, "HTTP 404: no such model"))
