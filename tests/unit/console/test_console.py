"""What is printed, and where, for people, pipes and scripts."""

from __future__ import annotations

import errno
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.edges import console
from builder.errors import LockError, Message
from builder.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator


class BrokenError(LockError):
    """A failure with two messages."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return (
            Message(place="lockfile.json:1", what="wrong", remedy="inv lock", found="x"),
            Message(place="node spark-b", what="log says \x1b[31mred\x1b[0m\u202e", remedy="é"),
        )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal with colours."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_errors_go_to_standard_error_one_after_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.print_error(BrokenError(), as_json=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "error: lockfile.json:1: wrong\n  found:    x\n  remedy:   inv lock\n"
        "error: node spark-b: log says \\x1b[31mred\\x1b[0m\\u202e\n  remedy:   é\n"
    )


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, f"cannot write {len(text)} characters")

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_progress_whose_terminal_was_closed_goes_on_in_silence(
    term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", Gone())
    progress = console.progress_for(quiet=False)
    progress.stage("roll back")
    progress.advance("image", 1, 2)
    progress.note("started again")
    progress.advance("image", 2, 2)
    console.print_error(BrokenError(), as_json=False)


def test_a_closed_standard_error_is_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    console.progress_for(quiet=False).stage("look")
    console.print_error(BrokenError(), as_json=False)


RESULT = "from builder.edges.console import print_result; print_result('é' * 100_000)"


def test_a_result_that_nobody_reads_to_its_end_is_no_traceback() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RESULT], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == console.READER_GONE


def test_a_result_for_which_there_is_no_room_is_an_error_of_one_line() -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [sys.executable, "-c", RESULT], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == (
        b"error: standard output: the result cannot be written: No space left on device\n"
    )


def test_a_result_in_a_narrow_encoding_is_escaped() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RESULT.replace("100_000", "1")],
        env={"PYTHONIOENCODING": "ascii"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"\\xe9\n"


def test_an_error_on_a_terminal_has_a_coloured_mark_and_no_other_control(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    console.print_error(BrokenError(), as_json=False)
    assert terminal.getvalue().count("\033[1;31merror:\033[0m ") == 2
    assert terminal.getvalue().count("\033") == 4


def test_an_error_as_json_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_error(BrokenError(), as_json=True)
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.isascii()
    assert json.loads(captured.out) == {
        "error": "BrokenError",
        "exit": 3,
        "messages": [
            {"place": "lockfile.json:1", "what": "wrong", "found": "x", "remedy": "inv lock"},
            {
                "place": "node spark-b",
                "what": "log says \x1b[31mred\x1b[0m\u202e",
                "remedy": "é",
            },
        ],
    }


def test_a_stream_that_knows_only_ascii_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    console.print_error(BrokenError(), as_json=False)
    assert raw.getvalue().endswith(b"  remedy:   \\xe9\n")


def test_quiet_tells_nothing() -> None:
    assert isinstance(console.progress_for(quiet=True), Silent)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colours_gets_plain_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    assert isinstance(console.progress_for(quiet=False), console.TerminalProgress)
    monkeypatch.setenv(name, value)
    assert isinstance(console.progress_for(quiet=False), console.PlainProgress)
    assert not console.wants_colour(terminal)


def test_a_pipe_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(console.progress_for(quiet=False), console.PlainProgress)


def test_a_pipe_is_told_of_a_long_transfer_every_ten_seconds_and_once_of_its_end() -> None:
    now = iter([0.0, 5.0, 9.9, 10.0, 15.0, 20.0, 21.0, 22.0])
    stream = io.StringIO()
    progress = console.PlainProgress(stream, clock=lambda: next(now))
    progress.stage("deliver")
    progress.note("spark-a has\nthe base")
    for done in (0, 1, 2, 3_000_000, 4, 5_000_000_000, 9_000_000_000, 9_000_000_000):
        progress.advance("layer", done, 9_000_000_000)
    assert stream.getvalue() == (
        "> deliver\n"
        "  spark-a has\nthe base\n"
        "  layer: 3.0 MB of 9.0 GB\n"
        "  layer: 5.0 GB of 9.0 GB\n"
        "  layer: 9.0 GB\n"
    )


def test_a_short_transfer_is_one_plain_line() -> None:
    stream = io.StringIO()
    progress = console.PlainProgress(stream, clock=lambda: 0.0)
    progress.advance("a", 5, 10)
    progress.advance("a", 10, 10)
    progress.advance("empty", 0, 0)
    assert stream.getvalue() == "  a: 10 B\n  empty: 0 B\n"


def test_a_transfer_of_the_next_stage_is_told_again() -> None:
    stream = io.StringIO()
    progress = console.PlainProgress(stream, clock=lambda: 0.0)
    progress.advance("a", 10, 10)
    progress.stage("again")
    progress.advance("a", 10, 10)
    assert stream.getvalue() == "  a: 10 B\n> again\n  a: 10 B\n"


@pytest.fixture
def bars(terminal: Terminal) -> Iterator[console.TerminalProgress]:
    progress = console.TerminalProgress(terminal)
    yield progress
    progress.stage("closed")


def plain(text: str) -> str:
    return re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", text)


def test_a_terminal_gets_a_bar_for_each_transfer_until_all_are_done(
    terminal: Terminal, bars: console.TerminalProgress
) -> None:
    bars.stage("deliver")
    bars.advance("to [bold]spark-a", 1_000_000, 2_000_000)
    assert "\033[?25l" in terminal.getvalue(), "the cursor is hidden meanwhile"
    bars.note("above the \x1b[31mbars")
    bars.advance("to spark-b", 2_000_000, 2_000_000)
    bars.advance("to [bold]spark-a", 2_000_000, 2_000_000)
    assert terminal.getvalue().endswith("\033[?25h"), "the cursor is shown again"
    text = plain(terminal.getvalue())
    assert "> deliver\n" in text
    assert "to [bold]spark-a" in text
    assert "2.0/2.0 MB" in text
    assert "above the \\x1b[31mbars" in text


def test_a_new_stage_closes_the_bars_of_a_transfer_that_failed(
    terminal: Terminal, bars: console.TerminalProgress
) -> None:
    bars.advance("to spark-a", 1, 2)
    bars.stage("roll back")
    assert "\033[?25h" in terminal.getvalue()
    assert plain(terminal.getvalue()).endswith("> roll back\n")


def test_a_result_that_is_printed_under_a_bar_stays_on_standard_output(
    bars: console.TerminalProgress, capsys: pytest.CaptureFixture[str]
) -> None:
    bars.advance("to spark-a", 1, 2)
    console.print_json({"a": 1})
    assert json.loads(capsys.readouterr().out) == {"a": 1}


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_940, "99.9 kB"),
        (99_960, "100 kB"),
        (999_600, "1.0 MB"),
        (20_000_000_000, "20.0 GB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_a_size_for_people(size_bytes: int, text: str) -> None:
    assert console.size_text(size_bytes) == text


def test_importing_the_console_imports_nothing_large() -> None:
    code = "import builder.edges.console, sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"rich", "pydantic", "tomlkit", "docker"} & set(done.stdout.split())
