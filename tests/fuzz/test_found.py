"""Every reader on what it was ever wrong about, and on what the fuzzer starts from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.fuzz.targets import TARGETS

FOUND: Final = Path(__file__).with_name("found")
"""One folder for each target, one file for each input that was once read wrongly."""


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_what_the_fuzzer_starts_from_is_read_rightly(name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()

    assert seeds
    for seed in seeds:
        target.one(seed)
        target.one(target.repair(seed))


@pytest.mark.parametrize(
    "path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_what_was_read_wrongly_once_is_read_rightly(path: Path) -> None:
    TARGETS[path.parent.name].one(path.read_bytes())
