"""A real `inv TASK` whose progress is told as lines on its standard output, and can be held.

    python -m tests.faults.controller HOLD TASK OPTIONS…

HOLD is a step's key (see `key_of`), or `-`. At that step, which has not begun, it says `HELD` and
waits for a line on its standard input. Nothing but the renderer of the progress is exchanged.
"""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Final

from invoke.main import program

from builder.edges import console

ROOT: Final = Path(__file__).resolve().parents[2]
STEP: Final = "STEP "
HELD: Final = "HELD"


def key_of(line: str) -> str:
    """A step's words without what differs from one deploy to the next."""
    return re.sub(r"\d+(\.\d+)?( [kMGT]?B)?", "N", re.sub(r"\b[0-9a-f]{12}\b", "HEX", line))


class SteppingProgress:
    """Tells every stage and note, and waits before the one to hold at."""

    def __init__(self, hold: str) -> None:
        self._hold = hold
        self._lock = threading.Lock()

    def stage(self, text: str) -> None:
        """A step of all nodes begins when this returns."""
        self._tell(f"> {text}")

    def note(self, text: str) -> None:
        """A node's action begins when this returns."""
        self._tell(text)

    def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """Nothing."""

    def _tell(self, text: str) -> None:
        with self._lock:
            sys.stdout.write(f"{STEP}{text}\n")
            held = key_of(text) == self._hold
            if held:
                self._hold = "-"
                sys.stdout.write(f"{HELD}\n")
            sys.stdout.flush()
        if held:
            sys.stdin.readline()


if __name__ == "__main__":
    progress = SteppingProgress(sys.argv[1])
    console.progress_for = lambda *, quiet: progress  # noqa: ARG005 - it has this one parameter
    program.run(["inv", "--search-root", str(ROOT), *sys.argv[2:]])
