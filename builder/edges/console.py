"""What sparklock prints: progress on standard error, results and errors, for people or scripts.

rich is imported only when standard error is a terminal.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import TYPE_CHECKING, TextIO

from builder.progress import Progress, Silent

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from builder.digest import JsonValue
    from builder.errors import SparklockError


def wants_colour(stream: TextIO) -> bool:
    """Whether colours belong on a stream: a terminal, and NO_COLOR is not set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def progress_for(*, quiet: bool) -> Progress:
    """Bars on a terminal, plain lines in a pipe, nothing when quiet; all on standard error."""
    if quiet:
        return Silent()
    if wants_colour(sys.stderr):
        return TerminalProgress()
    return PlainProgress(sys.stderr)


class PlainProgress:
    """One line per stage and note, and one when a transfer is done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def stage(self, text: str) -> None:
        """A line that begins a stage."""
        self._line(f"> {text}")

    def note(self, text: str) -> None:
        """An indented line."""
        self._line(f"  {text}")

    def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """A line when the last byte is done; nothing before."""
        if done_bytes >= total_bytes:
            self._line(f"  {what}: {total_bytes} bytes")

    def _line(self, text: str) -> None:
        with self._lock:
            print(text, file=self._stream, flush=True)


class TerminalProgress:
    """Stages and notes as lines, with a bar below for each transfer under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bars: RichProgress | None = None
        self._tasks: dict[str, TaskID] = {}

    def stage(self, text: str) -> None:
        """A line that begins a stage; bars of the stage before are closed."""
        with self._lock:
            self._close()
            print(f"\033[1m> {text}\033[0m", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """An indented line, above the bars."""
        with self._lock:
            if self._bars:
                self._bars.console.print(f"  {text}", markup=False, highlight=False)
            else:
                print(f"  {text}", file=sys.stderr, flush=True)

    def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """The transfer's bar moves; when the last is done the bars close."""
        with self._lock:
            bars = self._bars or self._open()
            if what not in self._tasks:
                self._tasks[what] = bars.add_task(what, total=total_bytes)
            bars.update(self._tasks[what], completed=done_bytes, total=total_bytes)
            if bars.finished:
                self._close()

    def _open(self) -> RichProgress:
        from rich.console import Console  # noqa: PLC0415 - a pipe must not pay for it
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
        from rich.progress import Progress as Bars  # noqa: PLC0415

        self._bars = Bars(
            TextColumn("  {task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._bars.start()
        return self._bars

    def _close(self) -> None:
        if self._bars:
            self._bars.stop()
        self._bars = None
        self._tasks = {}


def print_json(value: JsonValue) -> None:
    """A JSON value on standard output, indented, with a newline at the end."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_error(error: SparklockError, *, as_json: bool) -> None:
    """A failure on standard error; with `as_json` as JSON on standard output."""
    if as_json:
        messages = [message.as_json() for message in error.messages]
        print_json({"error": type(error).__name__, "exit": error.exit_code, "messages": messages})
        return
    print(f"error: {error}", file=sys.stderr)
