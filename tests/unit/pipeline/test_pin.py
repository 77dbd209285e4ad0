"""Pinning: the digest that a source has now, written into the manifest and nowhere else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builder import pinning
from builder.edges import manifest_edits
from builder.edges.layout import LayoutSource
from builder.edges.manifest_errors import (
    ManifestChangedError,
    ManifestNotEditableError,
    ManifestNotWritableError,
)
from builder.errors import BuildError
from builder.inputs import UnknownInputError
from builder.progress import Silent
from builder.read.edit import NotEditableError, with_text_value
from builder.read.errors import UnpinnedSourceError
from tests.project import BASE, Project
from tests.unit.oci.archives import file, tar_of

if TYPE_CHECKING:
    from builder.pinning import PinReport


def pin(project: Project, name: str) -> PinReport:
    return pinning.pin(project.file, name, Silent())


def digest_line(project: Project, name: str) -> str:
    """The manifest's line that pins an image of the project."""
    return f'digest = "{LayoutSource(project.folder / "images" / name).roots()[0].digest}"\n'


@pytest.fixture
def moved(project: Project) -> Project:
    """The base's source has another image than the manifest pins."""
    text = project.file.read_text()
    project.base(tar_of(*BASE, file("new")))
    project.file.write_text(text)
    return project


def test_pinning_writes_the_new_digest_and_no_other_byte(moved: Project) -> None:
    before = moved.file.read_text()
    old = moved.file.read_text().partition('digest = "')[2][:71]

    report = pin(moved, "base")

    new = digest_line(moved, "base")
    assert moved.file.read_text() == before.replace(f'digest = "{old}"\n', new)
    assert report.written
    assert f"base: oci:images/base: {old} -> sha256:" in report.text()
    assert "(manifest)" in report.text()
    moved.lock()


def test_pinning_what_is_pinned_writes_nothing(project: Project) -> None:
    before = project.file.stat()

    report = pin(project, "donors.tiny")

    after = project.file.stat()
    assert not report.written
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert "donors.tiny: oci:images/donor is current: sha256:" in report.text()


@pytest.mark.parametrize("spelling", ["donors.tiny", "donor:tiny"])
def test_a_missing_digest_is_added_right_after_its_source(project: Project, spelling: str) -> None:
    before = project.file.read_text()
    project.edit(digest_line(project, "donor"), "")

    report = pin(project, spelling)

    assert project.file.read_text() == before
    assert "not pinned -> sha256:" in report.text()


def test_all_inputs_without_a_digest_are_pinned_in_one_step(moved: Project) -> None:
    before = moved.file.read_text()
    moved.edit(digest_line(moved, "donor"), "")

    report = pin(moved, "all")

    assert [item.name for item in report.pins] == ["donors.tiny"]
    assert moved.file.read_text() == before
    assert (
        pin(moved, "all").text()
        == f"{moved.file}: every input has a digest; inv pin NAME moves one"
    )


def test_an_unpinned_manifest_is_told_how_to_pin(project: Project) -> None:
    project.edit(digest_line(project, "donor"), "")

    with pytest.raises(UnpinnedSourceError, match="inv pin all"):
        project.lock()


def test_a_report_in_json_has_both_digests_and_what_the_new_one_is_of(moved: Project) -> None:
    report = json.loads(json.dumps(pin(moved, "base").as_json()))

    (item,) = report["pins"]
    assert report["written"] is True
    assert item["before"] != item["after"]
    assert item | {"before": "", "after": ""} == {
        "input": "base",
        "source": "oci:images/base",
        "before": "",
        "after": "",
        "kind": "manifest",
        "changed": True,
    }


@pytest.mark.parametrize(
    ("name", "near"), [("bass", "base"), ("donors.tini", "donors.tiny"), ("tiny", "donors.tiny")]
)
def test_an_unknown_input_is_told_with_the_one_that_was_meant(
    project: Project, name: str, near: str
) -> None:
    with pytest.raises(UnknownInputError, match=f"did you mean {near}") as caught:
        pin(project, name)
    assert caught.value.exit_code == 2


def test_an_image_that_is_no_good_is_not_pinned(moved: Project) -> None:
    pin(moved, "base")
    moved.base(tar_of(file("x")), architecture="arm64").edit(digest_line(moved, "base"), "")
    before = moved.file.read_bytes()

    with pytest.raises(BuildError, match="linux/arm64"):
        pin(moved, "base")
    assert moved.file.read_bytes() == before


def test_a_manifest_behind_a_link_is_written_where_it_lies(moved: Project) -> None:
    real = moved.folder / "elsewhere.toml"
    moved.file.rename(real)
    moved.file.symlink_to(real.name)
    real.chmod(0o600)

    pin(moved, "base")

    assert moved.file.is_symlink()
    assert digest_line(moved, "base") in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_manifest_that_changed_meanwhile_is_left_alone(
    moved: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*args: object) -> object:
        moved.edit('name = "small"', 'name = "mine"')
        return real(*args)  # type: ignore[arg-type]

    real = pinning.pin_now
    monkeypatch.setattr(pinning, "pin_now", ask)
    with pytest.raises(ManifestChangedError) as caught:
        pin(moved, "base")

    assert caught.value.exit_code == 2
    assert 'name = "mine"' in moved.file.read_text()
    assert digest_line(moved, "base") not in moved.file.read_text()
    assert [path.name for path in moved.folder.glob(".cluster*")] == []


def test_a_folder_that_refuses_is_told(moved: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(manifest_edits, "write_whole", refuse)
    with pytest.raises(ManifestNotWritableError, match="Permission denied"):
        pin(moved, "base")


def test_what_cannot_be_edited_alone_is_told_with_the_line_to_write(
    moved: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NotEditableError

    monkeypatch.setattr(manifest_edits, "with_text_value", refuse)
    with pytest.raises(ManifestNotEditableError) as caught:
        pin(moved, "base")

    (message,) = caught.value.messages
    assert caught.value.exit_code == 2
    assert message.place.startswith(f"{moved.file}:10: image.base.digest")
    assert f"write it by hand: {digest_line(moved, 'base').strip()}" in message.remedy


def test_a_text_in_which_more_would_change_is_refused() -> None:
    """The space after a date is a part of it for tomlkit, and it would remove it."""
    with pytest.raises(NotEditableError):
        with_text_value("a = { b = 1979-05-27 }\n", ("a", "digest"), "x", after="b")
