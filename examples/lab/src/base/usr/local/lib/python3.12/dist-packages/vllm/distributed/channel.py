"""Messages and vectors over one socket."""

from __future__ import annotations

import json
import socket
import struct
from array import array
from typing import Any, Dict

_LENGTH = struct.Struct("!I")
_MAX_FRAME_BYTES = 64 * 2**20
_FLOAT_BYTES = 8

Message = Dict[str, Any]


class PeerClosedError(ConnectionError):
    """The other side is gone."""


class BadFrameError(ConnectionError):
    """What came is no frame of ours: somebody else speaks on this socket."""


class Channel:
    """One connected socket. Frames are a length of four bytes and that many bytes of JSON."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        if sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        """The file descriptor, for select."""
        return self._sock.fileno()

    def set_timeout(self, timeout_s: float | None) -> None:
        """Let further calls fail with TimeoutError after so many seconds; None waits for ever."""
        self._sock.settimeout(timeout_s)

    def send(self, message: Message) -> None:
        """Send one message."""
        data = json.dumps(message).encode()
        self._sock.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> Message:
        """The next message; PeerClosedError at the end, BadFrameError if it is none."""
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if size > _MAX_FRAME_BYTES:
            raise BadFrameError(f"a frame of {size} bytes")
        try:
            message = json.loads(self._read(size))
        except ValueError as error:
            raise BadFrameError(str(error)) from error
        if not isinstance(message, dict):
            raise BadFrameError(repr(message))
        return message

    def send_floats(self, values: array[float]) -> None:
        """Send a vector, as 8 bytes a number; the receiver knows how many there are."""
        self._sock.sendall(values.tobytes())

    def receive_floats(self, count: int) -> array[float]:
        """The next vector of so many numbers."""
        return array("d", self._read(count * _FLOAT_BYTES))

    def ended(self) -> bool:
        """Whether the other side is gone; throws away what there is to read if it is not."""
        try:
            return not self._sock.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False  # another thread was faster
        except ConnectionError:
            return True

    def close(self) -> None:
        """Close our side."""
        self._sock.close()

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._sock.recv(min(size, 1 << 20))
            if not part:
                raise PeerClosedError("the other side closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
