"""Programs on this machine that ssh's connections are made of: asked, written to, read in time."""

from __future__ import annotations

import os
import select
import subprocess
import time
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CALL_S: Final = 60
"""The limit of a command that only looks or renames, in seconds."""


def answer(argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """What a program on this machine says, whatever its status; TimeoutExpired if it hangs."""
    return subprocess.run(
        argv,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,
        timeout=CALL_S,
        check=False,
    )


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
