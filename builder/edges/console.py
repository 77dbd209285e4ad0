"""What sparklock prints: progress on standard error, results and errors, for people or scripts.

rich is imported only when bytes are shown on a terminal, and nothing else that is large at all:
`inv --list` and a pipe must not pay for it.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import re
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO, cast

from builder.progress import Progress, Silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from builder.digest import JsonValue
    from builder.errors import SparklockError

PLAIN_INTERVAL_S: Final = 10.0
"""How often a pipe is told of a transfer that goes on."""


READER_GONE: Final = 141
"""The exit code when nobody reads standard output any more: a shell's for SIGPIPE."""


def wants_colour(stream: TextIO | None) -> bool:
    """Whether colours belong on a stream: a terminal, and NO_COLOR is not set (no-color.org)."""
    if stream is None:  # what Python makes of a closed one
        return False
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def progress_for(*, quiet: bool) -> Progress:
    """Bars on a terminal, plain lines in a pipe, nothing when quiet; all on standard error."""
    if quiet:
        return Silent()
    if wants_colour(sys.stderr):
        return TerminalProgress(_unfailing(sys.stderr))
    return PlainProgress(_unfailing(sys.stderr))


def print_result(text: str) -> None:
    """A result on standard output; SystemExit when it cannot be written.

    The work is done by then. A pipe into `head` shows in the exit code alone, a full disk in words.
    """
    try:
        print(_encodable(text, sys.stdout), flush=True)
    except OSError as error:
        _discard(sys.stdout)
        if isinstance(error, BrokenPipeError):
            sys.exit(READER_GONE)
        sys.exit(f"error: standard output: the result cannot be written: {error.strerror}")


def print_json(value: JsonValue) -> None:
    """A JSON value on standard output, indented, ASCII, with a newline at the end."""
    print_result(json.dumps(value, indent=2))


def print_error(error: SparklockError, *, as_json: bool) -> None:
    """A failure on standard error; with `as_json` as a JSON object on standard output."""
    if as_json:
        messages = [message.as_json() for message in error.messages]
        print_json({"error": type(error).__name__, "exit": error.exit_code, "messages": messages})
        return
    mark = "\033[1;31merror:\033[0m" if wants_colour(sys.stderr) else "error:"
    stream = _unfailing(sys.stderr)
    for message in error.messages:
        _print(f"{mark} ", message.text(), stream)


class PlainProgress:
    """A line for each stage and note, and one now and then for a transfer, with its last byte."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()
        self._told_at: dict[str, float] = {}
        """When a transfer was last told of; never again once that is the end of time."""

    def stage(self, text: str) -> None:
        """A line that begins a stage."""
        with self._lock:
            self._told_at = {}
            _print("> ", text, self._stream)

    def note(self, text: str) -> None:
        """An indented line."""
        with self._lock:
            _print("  ", text, self._stream)

    def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """A line when the last byte is done, and before that every ten seconds."""
        with self._lock:
            now = self._clock()
            told_at = self._told_at.setdefault(what, now)
            finished = done_bytes >= total_bytes
            if told_at == _NEVER_AGAIN or (not finished and now - told_at < PLAIN_INTERVAL_S):
                return
            self._told_at[what] = _NEVER_AGAIN if finished else now
            share = size_text(total_bytes)
            if not finished:
                share = f"{size_text(done_bytes)} of {share}"
            _print("  ", f"{what}: {share}", self._stream)


_NEVER_AGAIN: Final = float("inf")


class TerminalProgress:
    """Stages and notes as lines, with a bar below for each transfer under way."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}

    def stage(self, text: str) -> None:
        """A line that begins a stage; bars of the stage before are closed."""
        with self._lock:
            self._close()
            _print("\033[1m> ", text, self._stream, end="\033[0m\n")

    def note(self, text: str) -> None:
        """An indented line, above the bars."""
        with self._lock:
            if self._bars is None:
                _print("  ", text, self._stream)
            else:
                self._bars.console.print(f"  {printable(text)}", markup=False, highlight=False)

    def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """The transfer's bar moves; when the last is done the bars close."""
        with self._lock:
            bars = self._bars or self._open()
            if what not in self._tasks:
                self._tasks[what] = bars.add_task(printable(what), total=total_bytes)
            bars.update(self._tasks[what], completed=done_bytes, total=total_bytes)
            if bars.finished:
                self._close()

    def _open(self) -> Bars:
        from rich import progress  # noqa: PLC0415 - a pipe must not pay for it
        from rich.console import Console  # noqa: PLC0415

        self._bars = progress.Progress(
            progress.TextColumn("  {task.description}", markup=False),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(file=self._stream, force_terminal=True),
            redirect_stdout=False,  # else a result that is printed meanwhile goes to standard error
        )
        atexit.register(self._close)  # a failure in a transfer must not leave the cursor hidden
        self._bars.start()
        return self._bars

    def _close(self) -> None:
        atexit.unregister(self._close)
        if self._bars is not None:
            self._bars.stop()
        self._bars = None
        self._tasks = {}


def size_text(size_bytes: int) -> str:
    """A size for people, in decimal units, such as `1.2 GB`."""
    size, power = float(size_bytes), 0
    while size >= 999.5 and power < len(_UNITS) - 1:  # noqa: PLR2004 - what would be shown as 1000
        size, power = size / 1000, power + 1
    digits = 0 if power == 0 or size >= 99.95 else 1  # noqa: PLR2004 - three digits are enough
    return f"{size:.{digits}f} {_UNITS[power]}"


_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text without what would steer a terminal or turn text round: shown as escapes instead.

    Messages quote nodes' logs and files' names, and those may hold anything.
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _print(mark: str, text: str, stream: TextIO, *, end: str = "\n") -> None:
    """A text after our own mark; what the stream's encoding lacks is escaped, never an error."""
    print(f"{mark}{_encodable(printable(text), stream)}", file=stream, end=end, flush=True)


def _encodable(text: str, stream: TextIO | None) -> str:
    encoding = (stream and stream.encoding) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


class _Unfailing(io.TextIOBase):
    """A stream that outlives its reader: what cannot be written any more is dropped.

    A terminal that was closed, a pipe into `head` or a full disk must not end a deployment halfway,
    still less its rolling back, which tells what it does.
    """

    encoding = "utf-8"

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.encoding = (stream and stream.encoding) or "utf-8"

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def write(self, text: str) -> int:
        if self._stream is not None:
            try:
                self._stream.write(text)
            except OSError:
                _discard(self._stream)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except OSError:
                _discard(self._stream)


def _unfailing(stream: TextIO | None) -> TextIO:
    return cast("TextIO", _Unfailing(stream))


def _discard(stream: TextIO) -> None:
    """Lead a stream nowhere, or Python fails once more when it flushes it at the end."""
    with suppress(io.UnsupportedOperation):  # not a file, but a test's own stream
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
