from __future__ import annotations

import os
from typing import TYPE_CHECKING

from builder.digest import digest_bytes
from builder.edges.verdicts import KEPT, VerdictFolder

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_written_is_read_by_another_process_object(tmp_path: Path) -> None:
    key = digest_bytes(b"key")
    assert VerdictFolder(tmp_path / "v").read(key) is None
    VerdictFolder(tmp_path / "v").write(key, b"data")

    assert VerdictFolder(tmp_path / "v").read(key) == b"data"
    assert VerdictFolder(tmp_path / "v").read(digest_bytes(b"other")) is None


def test_old_verdicts_do_not_pile_up(tmp_path: Path) -> None:
    folder = VerdictFolder(tmp_path)
    keys = [digest_bytes(str(number).encode()) for number in range(KEPT + 3)]
    for number, key in enumerate(keys):
        folder.write(key, b"data")
        path = next(path for path in tmp_path.iterdir() if path.name.endswith(key[-10:]))
        os.utime(path, (number, number))

    assert len(list(tmp_path.iterdir())) == KEPT
    assert folder.read(keys[0]) is None
    assert folder.read(keys[-1]) == b"data"


def test_the_checker_is_a_digest_of_the_sources_and_stays_the_same(tmp_path: Path) -> None:
    assert VerdictFolder(tmp_path).checker == VerdictFolder(tmp_path).checker
    assert VerdictFolder(tmp_path).checker.startswith("sha256:")


def test_a_folder_that_cannot_be_read_keeps_nothing(tmp_path: Path) -> None:
    key = digest_bytes(b"key")
    folder = VerdictFolder(tmp_path)
    folder.write(key, b"data")
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.mkdir()

    assert folder.read(key) is None
    folder.write(key, b"data")
    assert folder.read(key) is None
