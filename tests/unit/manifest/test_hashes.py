from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.edges import hashes
from builder.edges.hashes import LARGE_BYTES, NOTES, Hashes

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = b"o" * LARGE_BYTES, b"n" * LARGE_BYTES


@pytest.fixture(autouse=True)
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as left alone for long."""
    monkeypatch.setattr(hashes, "RESTED_S", -3600.0)


def digest(folder: Path) -> str:
    with Hashes(folder) as notes, (folder / "w").open("rb") as stream:
        return notes.of("w", stream)[1]


def trust(folder: Path) -> None:
    """Make the note say what no file has, so that its use shows."""
    text = (folder / NOTES).read_text()
    (folder / NOTES).write_text(text.replace(digest_bytes(OLD), digest_bytes(b"noted")))


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(OLD)
    assert digest(tmp_path) == digest_bytes(OLD)
    trust(tmp_path)
    assert digest(tmp_path) == digest_bytes(b"noted")


def test_a_change_that_hides_its_time_is_seen(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(OLD)
    digest(tmp_path)
    stat = (tmp_path / "w").stat()
    (tmp_path / "w").write_bytes(NEW)
    os.utime(tmp_path / "w", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert digest(tmp_path) == digest_bytes(NEW)


def test_a_file_that_has_just_changed_is_not_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "RESTED_S", 3600.0)
    (tmp_path / "w").write_bytes(OLD)
    digest(tmp_path)
    assert not (tmp_path / NOTES).exists()


def test_small_files_need_no_note(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"small")
    assert digest(tmp_path) == digest_bytes(b"small")
    assert not (tmp_path / NOTES).exists()


@pytest.mark.parametrize("note", ["", "[", "[]", "{}", '{"w": 1}', '{"w": [[1], "x"]}', "\xff"])
def test_a_spoiled_note_is_no_note(tmp_path: Path, note: str) -> None:
    (tmp_path / ".sparklock").mkdir()
    (tmp_path / NOTES).write_bytes(note.encode("latin-1"))
    (tmp_path / "w").write_bytes(OLD)
    assert digest(tmp_path) == digest_bytes(OLD)


def test_what_is_gone_is_forgotten_and_nowhere_to_write_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(OLD)
    digest(tmp_path)
    note = json.loads((tmp_path / NOTES).read_text())
    (tmp_path / NOTES).write_text(json.dumps({**note, "gone": note["w"]}))
    (tmp_path / "w").write_bytes(NEW)
    digest(tmp_path)
    assert set(json.loads((tmp_path / NOTES).read_text())) == {"w"}
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "w").write_bytes(OLD)
    (tmp_path / "elsewhere" / ".sparklock").write_text("a file")
    assert digest(tmp_path / "elsewhere") == digest_bytes(OLD)
