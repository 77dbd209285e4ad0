"""The server's HTTP API, reached through a local socket that ssh forwards to the head."""

from __future__ import annotations

import json
import socket
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

from verify.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from builder.digest import JsonValue
    from builder.secret import Secret


class Api:
    """The API behind a Unix socket. Every request has a deadline for all of it."""

    def __init__(self, path: Path, key: Secret | None = None) -> None:
        """`path` is a Unix socket; `key` is what the server wants from requests, if anything."""
        self._path = path
        self._key = key

    def without_key(self) -> Api:
        """The same API, asked by somebody who has no key."""
        return Api(self._path)

    def get(self, route: str, *, deadline_s: float) -> Mapping[str, Any]:
        """The JSON object of a route; ApiError for anything but HTTP 200 and an object in time."""
        return self._ask("GET", route, None, deadline_s)

    def post(self, route: str, body: JsonValue, *, deadline_s: float) -> Mapping[str, Any]:
        """The JSON object a route answers to a JSON body; ApiError as for `get`."""
        return self._ask("POST", route, json.dumps(body).encode(), deadline_s)

    def _ask(
        self, method: str, route: str, body: bytes | None, deadline_s: float
    ) -> Mapping[str, Any]:
        request = f"{method} {route}"
        headers = {"Content-Type": "application/json", "Host": "localhost"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.value}"
        try:
            with _connection(self._path, deadline_s) as connection:
                connection.request(method, route, body, headers)
                answer = connection.getresponse()
                status, text = answer.status, answer.read()
        except TimeoutError as error:
            raise ApiError(request, str(error), deadline_s) from error
        except (OSError, HTTPException) as error:
            problem = f"the connection ended without an answer ({type(error).__name__})"
            raise ApiError(request, problem, deadline_s) from error
        value = _object_of(text)
        if status != 200 or value is None:  # noqa: PLR2004 - HTTP OK
            problem = f"HTTP {status}: {text[:200].decode(errors='replace')}"
            raise ApiError(request, problem, deadline_s)
        return value


def _object_of(text: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@contextmanager
def _connection(path: Path, deadline_s: float) -> Iterator[HTTPConnection]:
    """A connection that is cut when the deadline is over, also while bytes trickle in."""
    connection = HTTPConnection("localhost")
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(str(path))
        connection.sock = channel
        over = Event()
        timer = Timer(deadline_s, _cut, [channel, over])
        timer.start()
        try:
            yield connection
        except (OSError, HTTPException) as error:
            if over.is_set():
                raise TimeoutError("the deadline is over") from error  # noqa: EM101, TRY003
            raise
        finally:
            timer.cancel()


def _cut(channel: socket.socket, over: Event) -> None:
    """Wake whoever waits for the other side; there is nothing to cut where it left by itself."""
    over.set()
    with suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)
