"""A lock with one of everything that a lock can hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.lockfile import parse_lock

if TYPE_CHECKING:
    from builder.lock import Lock

SAMPLE = Path(__file__).with_name("sample.json")


@pytest.fixture
def text() -> bytes:
    return SAMPLE.read_bytes()


@pytest.fixture
def lock(text: bytes) -> Lock:
    return parse_lock(text, place="lockfile.json")
