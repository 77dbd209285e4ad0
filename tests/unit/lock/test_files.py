"""Reading and writing the lock's file."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from builder.edges.files import read_lock, write_lock
from builder.errors import LockError

if TYPE_CHECKING:
    from pathlib import Path

    from builder.lock import Lock


def test_what_is_written_is_read_again(tmp_path: Path, lock: Lock, text: bytes) -> None:
    path = tmp_path / "lockfile.json"
    write_lock(path, lock)
    assert path.read_bytes() == text
    assert read_lock(path) == lock


def test_a_new_file_is_readable_by_all_whatever_the_umask(tmp_path: Path, lock: Lock) -> None:
    path = tmp_path / "lockfile.json"
    old = os.umask(0o077)
    try:
        write_lock(path, lock)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_the_mode_of_a_file_that_is_there_is_kept(tmp_path: Path, lock: Lock) -> None:
    path = tmp_path / "lockfile.json"
    path.write_text("old")
    path.chmod(0o664)
    write_lock(path, lock)
    assert stat.S_IMODE(path.stat().st_mode) == 0o664


def test_the_file_is_replaced_in_one_step_and_nothing_else_stays(
    tmp_path: Path, lock: Lock, text: bytes
) -> None:
    """Who has the old file open keeps all of it; a half-written one is never under the name."""
    path = tmp_path / "lockfile.json"
    path.write_text("old")
    with path.open() as reader:
        write_lock(path, lock)
        assert reader.read() == "old"
    assert path.read_bytes() == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["lockfile.json"]


def test_a_lock_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, lock: Lock) -> None:
    path = tmp_path / "lockfile.json"
    path.mkdir()
    with pytest.raises(LockError) as caught:
        write_lock(path, lock)
    assert str(caught.value) == (
        f"{path}: the lock cannot be written\n"
        "  expected: a folder in which files can be made and renamed\n"
        "  found:    Is a directory\n"
        "  remedy:   make room or get permission, then inv lock"
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["lockfile.json"]


def test_a_folder_that_is_not_there(tmp_path: Path, lock: Lock) -> None:
    with pytest.raises(LockError, match="the lock cannot be written"):
        write_lock(tmp_path / "absent/lockfile.json", lock)


def test_a_link_stays_a_link(tmp_path: Path, lock: Lock, text: bytes) -> None:
    real = tmp_path / "real.json"
    real.write_text("old")
    link = tmp_path / "lockfile.json"
    link.symlink_to("real.json")
    write_lock(link, lock)
    assert link.is_symlink()
    assert real.read_bytes() == text


def test_no_lock_at_all(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path / "lockfile.json")
    assert caught.value.exit_code == 3
    assert str(caught.value) == (
        f"{tmp_path}/lockfile.json: there is no lock\n"
        "  expected: the resolved state of the manifest beside it\n"
        "  found:    no such file\n"
        "  remedy:   inv lock, then commit the file"
    )


def test_a_lock_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: the lock cannot be read\n"
        "  expected: a readable text file\n"
        "  found:    Is a directory\n"
        f"  remedy:   git restore {tmp_path}, or make it again: inv lock"
    )
