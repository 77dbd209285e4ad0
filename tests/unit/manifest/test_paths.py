"""Paths of the manifest that may lead out of its folder, and those that may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import TypeAdapter, ValidationError

from builder.edges.local_files import read_local_files
from builder.read.parts import parts_of
from builder.values import ReachablePath, RelativePath, SourceText

if TYPE_CHECKING:
    from pathlib import Path

REACHABLE = TypeAdapter[str](ReachablePath)
RELATIVE = TypeAdapter[str](RelativePath)
SOURCE = TypeAdapter[str](SourceText)
STEPS_UP = ["../model", "../../lab/model", "../../.sparklock/lab/ssh_config", "../..model"]
OTHER_SPELLINGS = ["..", "../..", "../", "a/../b", "../a/../b", "./a", ".././a", "../a/", "..//a"]


@pytest.mark.parametrize("path", [*STEPS_UP, "model", "a/b"])
def test_steps_up_may_begin_a_path_that_only_is_read(path: str) -> None:
    assert REACHABLE.validate_python(path) == path
    assert SOURCE.validate_python(f"oci:{path}") == f"oci:{path}"
    assert SOURCE.validate_python(f"archive:{path}") == f"archive:{path}"


@pytest.mark.parametrize("path", OTHER_SPELLINGS)
def test_one_place_has_one_spelling(path: str) -> None:
    for kind, text in ((REACHABLE, path), (SOURCE, f"oci:{path}")):
        with pytest.raises(ValidationError):
            kind.validate_python(text)


@pytest.mark.parametrize("path", STEPS_UP)
def test_what_becomes_part_of_the_image_lies_below_the_manifest(path: str) -> None:
    with pytest.raises(ValidationError):
        RELATIVE.validate_python(path)


def test_a_models_files_are_named_from_its_own_folder_wherever_that_is(tmp_path: Path) -> None:
    (tmp_path / "model" / "tokens").mkdir(parents=True)
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "tokens" / "a.txt").write_text("a")
    (tmp_path / "pairs" / "one").mkdir(parents=True)
    parts = parts_of({"model": {"files": "../../model", "path": "/srv/model"}})
    found = read_local_files(tmp_path / "pairs" / "one", parts)
    assert [file.path for file in found.model_files] == ["config.json", "tokens/a.txt"]
    assert found.problems == ()


def test_a_link_on_the_way_up_and_down_is_still_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "config.json").write_text("{}")
    (tmp_path / "model").symlink_to("real")
    (tmp_path / "pair").mkdir()
    parts = parts_of({"model": {"files": "../model", "path": "/srv/model"}})
    found = read_local_files(tmp_path / "pair", parts)
    assert found.model_files == ()
    assert [problem.found for problem in found.problems] == ["../model: a symbolic link"]
