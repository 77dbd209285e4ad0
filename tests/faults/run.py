"""A controller's process in the hands of a test, and what of it may not be there afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Final

from tests.faults.controller import HELD, ROOT, STEP

if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence

END_S: Final = 240
"""What any run may take to its end, whatever was done to it."""


@dataclass(frozen=True)
class Master:
    """The ssh process of a connection, and the folder it belongs to."""

    pid: int
    folder: Path

    @property
    def alive(self) -> bool:
        try:
            return str(self.folder).encode() in Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False


class Run:
    """One `inv TASK` that runs; `steps` are those it has told, `said` what it printed besides."""

    def __init__(self, argv: Sequence[str], hold: str = "-") -> None:
        self.steps: list[str] = []
        self.said = ""
        self.masters: tuple[Master, ...] = ()
        self.took_s = 0.0
        self._begun = time.monotonic()
        self._lines: Queue[str | None] = Queue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.controller", hold, *argv],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def held(self) -> bool:
        """Whether it is held now; False if it ended without coming to that step."""
        while (line := self._lines.get(timeout=END_S)) is not None:
            if line == HELD:
                self.note_masters()
                return True
            self._take(line)
        return False

    def note_masters(self) -> None:
        """Remember its ssh processes of this moment."""
        found = []
        for file in Path(f"/proc/{self.pid}/task").glob("*/children"):
            for pid in map(int, file.read_text().split()):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"ControlMaster=yes" in words:
                    place = os.fsdecode(words[words.index(b"-S") + 1])
                    found.append(Master(pid, Path(place).parent))
        self.masters = tuple(found)

    def release(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """As a terminal does: to every process of its group."""
        os.killpg(self.pid, number)

    def running_for(self, time_s: float) -> bool:
        """Whether it still runs so long after its start."""
        try:
            self._process.wait(max(0.0, self._begun + time_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self) -> int:
        """Its exit status, once it has ended."""
        status = self._process.wait(END_S)
        self.took_s = time.monotonic() - self._begun
        while (line := self._lines.get(timeout=END_S)) is not None:
            self._take(line)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return status

    def _take(self, line: str) -> None:
        if line.startswith(STEP):
            self.steps.append(line.removeprefix(STEP))
        elif line != HELD:
            self.said += line + "\n"

    def kill(self) -> None:
        self._process.kill()  # nothing if it has ended and was waited for
