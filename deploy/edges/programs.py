"""Programs on this machine that ssh's connections are made of: asked, written to, read in time."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final

from deploy.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CALL_S: Final = 60
"""The limit of a command that only looks or renames, in seconds."""


def answer(argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """What a program on this machine says, whatever its status; TimeoutExpired if it hangs."""
    return finished(argv, b"", CALL_S)


def finished(
    argv: Sequence[str], stdin: bytes, timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """What a program on this machine says, whatever its status; TimeoutExpired if it hangs."""
    with started(argv, subprocess.PIPE) as process:
        try:
            stdout, stderr = process.communicate(stdin, timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def started(argv: Sequence[str], stderr: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """A program with unbuffered pipes, to which no signal of our terminal or group comes.

    It has its own session. Until it has, it is of our process group: only blocked signals spare it.
    """
    with _unsignalled():
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(),
            start_new_session=True,
            bufsize=0,
        )


@contextmanager
def _unsignalled() -> Iterator[None]:
    """What this thread starts inside the block has these signals blocked, and keeps them so."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def environment() -> dict[str, str]:
    """Our environment with messages in English, since their text tells failures apart."""
    return {**os.environ, "LC_ALL": "C"}


def end_of(stderr: bytes) -> str:
    """The last lines that a program wrote, as text."""
    lines = stderr.decode(errors="replace").replace("\r", "").strip().splitlines()
    return "\n".join(lines[-20:])


def write(pipe: IO[bytes], data: bytes) -> None:
    """Write to a process that may be dead already; what it left behind tells why."""
    try:
        pipe.write(data)
    except BrokenPipeError:
        return


def read_line(pipe: IO[bytes], timeout_s: float) -> bytes:
    """The next line of an unbuffered pipe, or what came of it before its end or the deadline."""
    deadline = time.monotonic() + timeout_s
    line = b""
    while not line.endswith(b"\n"):
        left_s = deadline - time.monotonic()
        ready = left_s > 0 and select.select([pipe], [], [], left_s)[0]
        byte = pipe.read(1) if ready else b""
        if not byte:
            return line
        line += byte
    return line
