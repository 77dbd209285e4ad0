"""The program that receives a copy, where two of its threads meet."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING

from deploy.onnode import receiving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


class LockThen:
    """A lock that lets something happen as soon as it is free."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._then = then

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()
        self._then()


def test_a_range_that_comes_as_a_hasher_stops_is_left_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "RANGE_BYTES", 4)
    sha256 = hashlib.sha256(b"aaaabbbb").hexdigest()
    listed = {"name": "f", "size": 8, "sha256": sha256}
    copy = receiving.Copy({"folder": str(tmp_path), "files": [listed]})
    file, _ = copy._ranges.get() or (None, 0)
    assert file is not None
    os.pwrite(file.file, b"aaaa", 0)
    file.come.add(0)
    file.busy = True

    def second_comes() -> None:
        if file.hashed == 1 and not file.busy:
            os.pwrite(file.file, b"bbbb", 4)
            file.come.add(1)
            file.busy = True

    monkeypatch.setattr(copy, "_lock", LockThen(second_comes))
    buffer = memoryview(bytearray(4))
    copy._hash_on(file, buffer)
    assert (file.hashed, (tmp_path / "f").exists()) == (1, False)
    copy._hash_on(file, buffer)
    assert (tmp_path / "f").read_bytes() == b"aaaabbbb"
