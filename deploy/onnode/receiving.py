"""Files from a node that runs `serving`, by several connections, each file proven and then named.

Asked: {"address", "port", "secret", "own", "folder", "connections", "files"}, a file being {"name",
"size", "sha256"} in the server's order. Told: {"bytes"} now and then, then {"done"} with the bytes
that travelled, or {"error"} with more facts. Until it is proven a file is NAME.part, and what has
come of it is noted in NAME.part.ranges, so that a copy that was cut goes on where it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import socket
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RANGE_BYTES = 32 * 2**20
BUFFER_BYTES = 2**20
CONNECT_S = 5
STALL_S = 20
TRIES = 3
PART = ".part"
RANGES = ".part.ranges"
TELL_S = 0.5
SPACE, DISK, LINK, DAMAGED = "space", "disk", "link", "damaged"


class FailedError(Exception):
    """Why the copy ended; `facts` are told."""

    def __init__(self, error: str, **facts: object) -> None:
        super().__init__(error)
        self.facts = {"error": error, **facts}


class Incoming:
    """One file on its way."""

    def __init__(self, index: int, folder: str, name: str, size: int, sha256: str) -> None:
        self.index, self.name, self.size, self.sha256 = index, name, size, sha256
        self.path = os.path.join(folder, name)  # noqa: PTH118 - as everywhere in this program
        self.count = -(-size // RANGE_BYTES)
        self.resumed = self._noted()
        self.come = set(self.resumed)
        self.file = os.open(self.path + PART, os.O_RDWR | os.O_CREAT, 0o644)
        self.notes = os.open(self.path + RANGES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if not self.resumed:
            self.restart()
        self.hash = hashlib.sha256()
        self.hashed = 0
        self.busy = False

    def restart(self) -> None:
        """Forget what came, so that all of it is fetched."""
        os.ftruncate(self.notes, 0)
        os.ftruncate(self.file, 0)
        os.ftruncate(self.file, self.size)
        self.resumed, self.come = set(), set()
        self.hash, self.hashed = hashlib.sha256(), 0

    def _noted(self) -> set[int]:
        """The ranges that came before; none if the file is not there as it was left."""
        try:
            if os.stat(self.path + PART).st_size != self.size:  # noqa: PTH116
                return set()
            with open(self.path + RANGES, "rb") as file:  # noqa: PTH123
                lines = file.read().split(b"\n")[:-1]
            return {int(line) for line in lines if 0 <= int(line) < self.count}
        except (OSError, ValueError):
            return set()

    def missing(self) -> list[int]:
        """The ranges that are still to come, in order."""
        return [number for number in range(self.count) if number not in self.come]

    def length(self, number: int) -> int:
        """The bytes of a range."""
        return min(RANGE_BYTES, self.size - number * RANGE_BYTES)

    def note(self, number: int) -> None:
        """Note a range whose bytes are in the file."""
        os.write(self.notes, b"%d\n" % number)

    def publish(self) -> None:
        """Give the file its name, its bytes being on disk."""
        os.fdatasync(self.file)
        self.close()
        os.rename(self.path + PART, self.path)  # noqa: PTH104
        os.unlink(self.path + RANGES)  # noqa: PTH108

    def drop(self) -> None:
        """Leave nothing of the file."""
        self.close()
        os.unlink(self.path + PART)  # noqa: PTH108
        os.unlink(self.path + RANGES)  # noqa: PTH108

    def close(self) -> None:
        """Close what is open."""
        os.close(self.file)
        os.close(self.notes)


class Copy:
    """The whole copy: ranges are fetched by some threads and hashed in order by others."""

    def __init__(self, asked: dict[str, object]) -> None:
        self._asked = asked
        folder = str(asked["folder"])
        listed: list[dict[str, object]] = asked["files"]  # type: ignore[assignment] # JSON
        files = [
            Incoming(number, folder, str(f["name"]), int(str(f["size"])), str(f["sha256"]))
            for number, f in enumerate(listed)
        ]
        self._lock = threading.Lock()
        self._ranges: queue.SimpleQueue[tuple[Incoming, int] | None] = queue.SimpleQueue()
        self._hashing: queue.SimpleQueue[Incoming | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._failure: FailedError | None = None
        self._open = len(files)
        self.bytes = sum(file.length(number) for file in files for number in file.come)
        self.travelled = 0
        self._require_space(folder, files)
        for file in files:
            self._begin(file)

    def _require_space(self, folder: str, files: list[Incoming]) -> None:
        stat = os.statvfs(folder)
        free = stat.f_bavail * stat.f_frsize
        needed = sum(file.length(number) for file in files for number in file.missing())
        if needed > free:
            for file in files:
                (file.close if file.resumed else file.drop)()
            raise FailedError(SPACE, needed=needed, free=free)

    def _begin(self, file: Incoming) -> None:
        for number in file.missing():
            self._ranges.put((file, number))
        self._advance(file)

    def run(self) -> None:
        """Fetch, hash and name all files; FailedError."""
        connections = int(str(self._asked["connections"]))
        hashers = max(1, len(os.sched_getaffinity(0)))
        threads = [threading.Thread(target=self._fetch, daemon=True) for _ in range(connections)]
        threads += [threading.Thread(target=self._hash, daemon=True) for _ in range(hashers)]
        if not self._open:
            self._ended.set()
        for thread in threads:
            thread.start()
        while not self._ended.wait(TELL_S):
            tell(bytes=self.bytes)
        for _ in range(connections):
            self._ranges.put(None)
        for _ in range(hashers):
            self._hashing.put(None)
        if self._failure:
            raise self._failure

    def _fail(self, failure: FailedError) -> None:
        with self._lock:
            self._failure = self._failure or failure
        self._ended.set()

    def _fetch(self) -> None:
        buffer = memoryview(bytearray(BUFFER_BYTES))
        server: socket.socket | None = None
        failed = 0
        while not self._ended.is_set():
            item = self._ranges.get()
            if item is None:
                break
            try:
                server = server or self._connected()
                self._receive(server, item[0], item[1], buffer)
                failed = 0
            except _LocalError as error:
                self._fail(FailedError(DISK, said=str(error)))
            except OSError as error:
                self._ranges.put(item)
                server = None
                failed += 1
                if failed >= TRIES:
                    self._fail(FailedError(LINK, said=error.strerror or str(error)))
        if server is not None:
            server.close()

    def _connected(self) -> socket.socket:
        address = (str(self._asked["address"]), int(str(self._asked["port"])))
        own = (str(self._asked["own"]), 0)
        server = socket.create_connection(address, CONNECT_S, own)
        server.settimeout(STALL_S)
        server.sendall(str(self._asked["secret"]).encode() + b"\n")
        return server

    def _receive(
        self, server: socket.socket, file: Incoming, number: int, buffer: memoryview
    ) -> None:
        offset, left = number * RANGE_BYTES, file.length(number)
        server.sendall(b"%d %d %d\n" % (file.index, offset, left))
        while left:
            size = server.recv_into(buffer, min(left, BUFFER_BYTES))
            if not size:
                raise ConnectionResetError(0, "the connection ended too early")
            with _writing():
                done = 0
                while done < size:
                    done += os.pwrite(file.file, buffer[done:size], offset + done)
            offset += size
            left -= size
            with self._lock:
                self.bytes += size
                self.travelled += size
        with _writing():
            file.note(number)
        with self._lock:
            file.come.add(number)
        self._advance(file)

    def _advance(self, file: Incoming) -> None:
        """Have the file hashed further, if its next range is there and nobody is at it."""
        with self._lock:
            if not file.busy and (file.hashed in file.come or file.hashed == file.count):
                file.busy = True
                self._hashing.put(file)

    def _hash(self) -> None:
        buffer = memoryview(bytearray(BUFFER_BYTES))
        while True:
            file = self._hashing.get()
            if file is None:
                return
            try:
                self._hash_on(file, buffer)
            except FailedError as error:
                self._fail(error)
            except OSError as error:
                self._fail(FailedError(DISK, said=error.strerror or str(error)))

    def _hash_on(self, file: Incoming, buffer: memoryview) -> None:
        """Hash the ranges that have come in order; at the end name the file, or refuse it."""
        while True:
            with self._lock:
                if file.hashed == file.count:
                    break  # it stays busy: at its end nobody else begins
                if file.hashed not in file.come:
                    file.busy = False
                    return
            offset = file.hashed * RANGE_BYTES
            left = file.length(file.hashed)
            while left:
                size = os.preadv(file.file, [buffer[:left]], offset)
                if not size:
                    raise FailedError(DISK, said=f"{file.name} became shorter")
                file.hash.update(buffer[:size])
                offset += size
                left -= size
            with self._lock:
                file.hashed += 1
        self._end(file)

    def _end(self, file: Incoming) -> None:
        found = file.hash.hexdigest()
        if found != file.sha256:
            if file.resumed:  # what was left of an earlier copy may be the cause
                with self._lock:
                    self.bytes -= file.size
                    file.restart()
                    file.busy = False
                self._begin(file)
                return
            file.drop()
            raise FailedError(DAMAGED, name=file.name, found=found)
        file.publish()
        with self._lock:
            self._open -= 1
            done = self._open == 0
        if done:
            self._ended.set()


class _LocalError(Exception):
    """The file cannot be written."""


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """What fails in here is the disk's fault, not the link's: _LocalError."""
    try:
        yield
    except OSError as error:
        raise _LocalError(error.strerror or str(error)) from error


_TELLING = threading.Lock()


def tell(**facts: object) -> None:
    """One line of JSON."""
    with _TELLING:
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()


def end_with_stdin() -> None:
    """End the process when nobody holds its stdin any more."""
    while sys.stdin.buffer.read(2**16):
        pass
    os._exit(0)


def main() -> None:
    """Read what is asked, copy, tell."""
    asked = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_stdin, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        try:
            copy = Copy(asked)
            copy.run()
            tell(bytes=copy.bytes)
            tell(done=copy.travelled)
        except FailedError as error:
            tell(**error.facts)
        except OSError as error:
            tell(error=DISK, said=error.strerror or str(error))
    os._exit(0)


if __name__ == "__main__":
    main()
