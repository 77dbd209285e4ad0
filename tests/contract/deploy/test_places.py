from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from deploy.edges import places
from deploy.edges.places import Place, sweep

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(places, "PARENT", tmp_path)
    return tmp_path


def left(place: Place, *, age_s: int = 3600) -> Path:
    """The folder of a place whose process was killed that long ago."""
    (place.path / "stderr").write_text("said")
    os.close(place._lock)
    os.utime(place.path, (0, place.path.stat().st_mtime - age_s))
    return place.path


def test_what_a_killed_process_left_is_swept() -> None:
    path = left(Place())
    sweep()
    assert not path.exists()


def test_the_place_of_a_living_process_is_not(parent: Path) -> None:
    place = Place()
    os.utime(place.path, (0, 0))
    young = left(Place(), age_s=0)
    link, other = parent / f"{places.PREFIX}link", parent / "sparklock-other"
    other.mkdir()
    os.utime(other, (0, 0))
    link.symlink_to(other)
    sweep()
    assert place.path.exists()
    assert young.exists()
    assert other.exists()
    assert link.is_symlink()
    place.remove()
    place.remove()
    assert not place.path.exists()
