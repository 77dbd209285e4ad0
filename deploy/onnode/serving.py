"""Ranges of some files, to whoever knows a secret, on one address of the node.

Asked: {"address", "secret", "paths"}. Told: {"port"}, once. A client sends the secret and a
newline, then any number of lines `INDEX OFFSET LENGTH`; each is answered by just those bytes. No
other file can be asked for. A connection that asks anything else is closed.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import struct
import sys
import threading

LINE_BYTES = 200
LOGIN_S = 10
STALL_S = 120
MOST_CLIENTS = 64


class Server:
    """The listening socket and the files that it gives."""

    def __init__(self, address: str, secret: str, paths: list[str]) -> None:
        self.listener = socket.create_server((address, 0), backlog=MOST_CLIENTS)
        self._secret = secret.encode()
        self._paths = paths
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)

    def run(self) -> None:
        """Accept for ever."""
        while True:
            client, _ = self.listener.accept()
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()
            else:
                client.close()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                self._answer(client)
        except (OSError, ValueError, IndexError):
            pass  # the client asks again on another connection, or is none of ours
        finally:
            self._free.release()

    def _answer(self, client: socket.socket) -> None:
        client.settimeout(LOGIN_S)
        lines = client.makefile("rb")
        if not hmac.compare_digest(lines.readline(LINE_BYTES).rstrip(b"\n"), self._secret):
            return
        client.settimeout(None)
        limit = struct.pack("ll", STALL_S, 0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        while True:
            line = lines.readline(LINE_BYTES)
            if not line:
                return
            index, offset, length = (int(part) for part in line.split(b" "))
            if min(index, offset, length) < 0:
                return
            with open(self._paths[index], "rb", buffering=0) as file:  # noqa: PTH123
                while length > 0:
                    sent = os.sendfile(client.fileno(), file.fileno(), offset, length)
                    if sent == 0:
                        return  # the file is shorter than it was
                    offset += sent
                    length -= sent


def end_with_stdin() -> None:
    """End the process when nobody holds its stdin any more."""
    while sys.stdin.buffer.read(2**16):
        pass
    os._exit(0)


def main() -> None:
    """Listen, tell the port, and serve until stdin ends."""
    asked = json.loads(sys.stdin.buffer.readline())
    server = Server(asked["address"], asked["secret"], asked["paths"])
    sys.stdout.write(json.dumps({"port": server.listener.getsockname()[1]}) + "\n")
    sys.stdout.flush()
    threading.Thread(target=server.run, daemon=True).start()
    end_with_stdin()


if __name__ == "__main__":
    main()
