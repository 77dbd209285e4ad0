"""Files that appear whole or not at all, and what killed writers leave of them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from builder.edges.disk import abandoned, temporary, write_whole

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[3]
WRITER = """
import sys, pathlib
from builder.edges.disk import write_whole
def chunks():
    yield b"half"
    print("half", flush=True)
    sys.stdin.read()
    yield b" and whole"
write_whole(pathlib.Path(sys.argv[1]), chunks())
"""


def writer(path: Path) -> subprocess.Popen[str]:
    """A process that has written half a file, and waits for the end of its input."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    return process


def test_a_killed_writer_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    with writer(tmp_path / "file") as process:
        process.send_signal(signal.SIGKILL)
    (left,) = tmp_path.iterdir()
    assert list(abandoned(tmp_path, prefix=".file.writing-")) == [left]

    write_whole(tmp_path / "file", [b"new"])

    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"new"


def test_what_a_living_process_writes_is_left_to_it(tmp_path: Path) -> None:
    with writer(tmp_path / "file") as process:
        assert list(abandoned(tmp_path)) == []
        write_whole(tmp_path / "file", [b"new"])
        process.communicate()

    assert process.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"half and whole"


def test_only_files_of_that_name_are_taken_for_abandoned(tmp_path: Path) -> None:
    (tmp_path / ".file.swp").write_text("an editor's")
    (tmp_path / ".file.writing-folder").mkdir()
    (tmp_path / ".other.writing-1").write_text("")
    assert list(abandoned(tmp_path, prefix=".file.writing-")) == []


def test_a_file_whose_name_went_before_its_lock_came_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # between making a file and locking it, it looks as if its writer had died
    real, left = fcntl.flock, list[Path]()

    def slow(descriptor: int, how: int) -> None:
        if not left:
            left.extend(tmp_path.iterdir())
            left[0].unlink()
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    with temporary(tmp_path) as file:
        assert Path(file.name).exists()
        assert Path(file.name) not in left
    assert left


def test_a_link_leads_to_the_file_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")

    write_whole(tmp_path / "link", [b"new"])

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
