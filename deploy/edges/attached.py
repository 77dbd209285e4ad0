"""A container of ours that runs one program, with its stdin and what it tells.

It has the engine's AutoRemove and loses its stdin with our connection, so that it ends and goes
whatever becomes of us.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from deploy import node_errors
from deploy.edges.waiting import until_stopped

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping

    from builder.digest import JsonValue
    from deploy.edges.engine import Engine

STDERR: Final = 2
HEADER: Final = struct.Struct(">BxxxL")
MOST_STDERR: Final = 4000


@contextmanager
def attached(
    engine: Engine,
    name: str,
    request: Mapping[str, JsonValue],
    data: bytes,
    stopped: Callable[[], bool],
) -> Iterator[Lines]:
    """What a container writes, line by line, once it was given `data`; afterwards it is gone.

    One of that name that was left is removed first. Raises NodeError, and DeployInterruptedError
    when `stopped` says so.
    """
    engine.remove(name)
    engine.create(name, request)
    try:
        with engine.attach(name) as connection:
            engine.start(name)
            connection.sendall(data)
            yield Lines(connection, stopped)
    finally:
        with suppress(node_errors.EngineConflictError):  # it is being removed already
            engine.remove(name)


class Lines:
    """An iterator over the lines of stdout; `stderr` is the end of what came there."""

    def __init__(self, connection: socket.socket, stopped: Callable[[], bool]) -> None:
        self._connection = connection
        self._stopped = stopped
        self.stderr = ""

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        for data in until_stopped(self._frames, self._stopped):
            *lines, rest = (rest + data).split(b"\n")
            yield from lines

    def _frames(self) -> Iterator[bytes]:
        """What came to stdout, in pieces (Docker Engine API, attach: stream format)."""
        while True:
            header = self._read(HEADER.size)
            if len(header) < HEADER.size:
                return
            kind, size = HEADER.unpack(header)
            data = self._read(size)
            if kind == STDERR:
                self.stderr = (self.stderr + data.decode(errors="replace"))[-MOST_STDERR:]
            else:
                yield data

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                data = self._connection.recv(size - len(found))
            except OSError:
                break
            if not data:
                break
            found += data
        return found


def socket_of(answer: Any) -> socket.socket:  # noqa: ANN401 - docker has no types for it
    """The socket under an attached stream, without a limit of a silence."""
    connection: socket.socket = getattr(answer, "_sock", answer)
    connection.settimeout(None)
    return connection
