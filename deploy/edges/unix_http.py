"""HTTP over a unix socket, such as a forwarded one."""

from __future__ import annotations

import http.client
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class UnixConnection(http.client.HTTPConnection):
    """HTTP to a unix socket; every single wait on it ends after the timeout."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
