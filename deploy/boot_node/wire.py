"""What copies of the program say to each other, over the fabric."""

from __future__ import annotations

import hmac
import http.client
import json
import os
import socket
import socketserver
from typing import TYPE_CHECKING, Any, Final

from .engine import CALL_S
from .journal import say_once
from .node import Here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .engine import Engine
    from .facts import Config

SILENCE_S: Final = 30
"""How long a copy that holds its guard for another waits for that one's next word."""

CONNECT_S: Final = 5
LONGEST_LINE: Final = 100_000


class OtherSecretError(OSError):
    """The other side cannot prove that it knows our secret."""

    def __str__(self) -> str:
        return "the other node has another secret: `inv boot --install`"


class ClosedError(OSError):
    """The other side has ended the connection."""

    def __str__(self) -> str:
        return "the other node has closed the connection"


class RefusedError(OSError):
    """The other side did not do what it was asked; its own words are the text."""


class Wire:
    """A connection whose every line proves that its sender knows the secret, and is a new one."""

    def __init__(self, connection: socket.socket, secret: bytes, *, asks: bool) -> None:
        self._file = connection.makefile("rwb")
        own = os.urandom(16).hex().encode()
        self._write(own)
        theirs = self._read()
        self._key = hmac.digest(
            secret, b" ".join((own, theirs) if asks else (theirs, own)), "sha256"
        )
        self._out, self._in = (b"ask", b"answer") if asks else (b"answer", b"ask")
        self._sent = self._received = 0

    def send(self, value: Mapping[str, Any]) -> None:
        """Write one line."""
        body = json.dumps(value).encode()
        self._write(self._mac(self._out, self._sent, body) + b" " + body)
        self._sent += 1

    def receive(self) -> dict[str, Any]:
        """The next line; OSError if the other side does not know the secret."""
        mac, _, body = self._read().partition(b" ")
        if not hmac.compare_digest(mac, self._mac(self._in, self._received, body)):
            raise OtherSecretError
        self._received += 1
        value: dict[str, Any] = json.loads(body)
        return value

    def _mac(self, direction: bytes, number: int, body: bytes) -> bytes:
        text = b" ".join((direction, str(number).encode(), body))
        return hmac.new(self._key, text, "sha256").hexdigest().encode()

    def _write(self, line: bytes) -> None:
        self._file.write(line + b"\n")
        self._file.flush()

    def _read(self) -> bytes:
        line = self._file.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise ClosedError
        return line[:-1]


class There:
    """Another node, asked through its copy of this program."""

    def __init__(self, address: str, config: Config, secret: bytes) -> None:
        own = (config.peers[config.rank][1], 0)
        self._socket = socket.create_connection(
            (address, config.port), CONNECT_S, source_address=own
        )
        self._socket.settimeout(CALL_S)
        try:
            self._wire = Wire(self._socket, secret, asks=True)
        except OSError:
            self._socket.close()
            raise

    def ask(self, verb: str, container: str = "") -> dict[str, Any]:
        """The answer; OSError, with the reason, if it does not do it."""
        self._wire.send({"verb": verb, "container": container})
        answer = self._wire.receive()
        if "refused" in answer:
            raise RefusedError(answer["refused"])
        return answer

    def close(self) -> None:
        """End the connection, and with it the hold on the node's guard."""
        self._socket.close()


class Answering(socketserver.ThreadingTCPServer):
    """A worker's copy: answers rank 0's on the node's fabric address."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, config: Config, engine: Engine, secret: bytes) -> None:
        self.config, self.engine, self.secret = config, engine, secret
        super().__init__((config.peers[config.rank][1], config.port), _Handler)


class _Handler(socketserver.BaseRequestHandler):
    server: Answering

    def handle(self) -> None:
        here = Here(self.server.config, self.server.engine)
        self.request.settimeout(SILENCE_S)
        try:
            wire = Wire(self.request, self.server.secret, asks=False)
            while True:
                asked = wire.receive()
                try:
                    answer = here.ask(str(asked["verb"]), str(asked["container"]))
                except (OSError, http.client.HTTPException) as error:
                    answer = {"refused": f"{self.server.config.node}: {error}"}
                wire.send(answer)
        except OtherSecretError as error:
            say_once(self.server.config, str(error))
        except (OSError, ValueError, LookupError):
            return  # it has ended, or is nobody that we know
        finally:
            here.close()
