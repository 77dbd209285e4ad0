"""Vendoring: a repository that builds without any source, and whose files a reviewer can read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from builder import pipeline, updating, vendoring
from builder.edges.vendor_errors import (
    NotOurFileError,
    VendoredDifferError,
    VendorNotWritableError,
)
from builder.progress import Silent
from builder.read.errors import InvalidManifestError
from tests.project import BASE, DONOR, MODELS, REGISTRY, VENV, Project
from tests.unit.oci.archives import file, tar_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builder.reports import LockReport

PICKED = f"donors/tiny/{VENV}/{MODELS}/new.py"
NEWER = f"donors/tiny/{VENV}/{MODELS}/newer.py"
FILES = {
    ".gitattributes",
    ".gitignore",
    "SHA256SUMS",
    "base/config.json",
    "base/manifest.json",
    f"base/files/{REGISTRY}",
    PICKED,
}


def vendor(project: Project, folder: str = "vendor") -> LockReport:
    return vendoring.vendor(project.file, folder, Silent())


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def vendored(project: Project) -> Project:
    vendor(project)
    return project


@pytest.fixture
def alone(vendored: Project) -> Project:
    """What a fresh clone has when every source is gone."""
    return vendored.remove("images").remove(".sparklock")


def test_vendoring_names_the_folder_and_fills_it(project: Project) -> None:
    before = project.file.read_text()

    report = vendor(project)

    platform = 'platform = "linux/amd64"\n'
    assert project.file.read_text() == before.replace(platform, f'{platform}vendor = "vendor"\n')
    assert files_in(project.folder / "vendor") == FILES
    assert (project.folder / "vendor" / PICKED).read_text() == "class New: ...\n"
    assert f"{project.folder}/vendor: 4 files" in report.text()
    assert f"{PICKED}: written" in report.text()
    told = json.loads(json.dumps(report.as_json()))["vendored"]
    assert (told["count"], told["removed"], told["left"]) == (4, [], [])
    assert PICKED in told["written"]


def test_the_list_of_files_is_one_that_sha256sum_checks(vendored: Project) -> None:
    argv = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    subprocess.run(argv, cwd=vendored.folder / "vendor", check=True, capture_output=True)


def test_a_lock_is_the_same_with_and_without_vendored_files(project: Project) -> None:
    project.lock()
    before = project.lock_file.read_bytes()
    vendor(project)
    assert project.lock_file.read_bytes() == before


def test_a_clone_builds_and_checks_without_any_source(alone: Project) -> None:
    checked = alone.check()
    assert checked.lacking is None
    assert not (alone.folder / ".sparklock").exists()

    built = alone.build(locked=True)
    assert built.image.manifest.descriptor.digest == alone.read_lock().outputs.manifest_digest


def test_a_folder_that_no_disk_takes_is_told_and_nothing_written(project: Project) -> None:
    before = project.file.read_bytes()
    with pytest.raises(VendorNotWritableError, match="File name too long"):
        vendoring.vendor(project.file, "x" * 300, Silent())
    assert project.file.read_bytes() == before


def test_locking_again_leaves_every_file_as_it_is(vendored: Project) -> None:
    before = {path: path.stat().st_ino for path in (vendored.folder / "vendor").rglob("*")}

    report = vendored.lock()

    after = {path: path.stat().st_ino for path in (vendored.folder / "vendor").rglob("*")}
    assert after == before
    assert "4 files, as they were" in report.text()


def test_the_folder_follows_the_lock_and_others_files_stay(vendored: Project) -> None:
    vendored.write(f"vendor/donors/tiny/{VENV}/notes.txt", "mine")
    vendored.edit("models/new.py", "models/newer.py")
    vendored.edit('New = ["new", "New"]', 'New = ["newer", "Newer"]')

    report = vendored.lock()

    mine = f"donors/tiny/{VENV}/notes.txt"
    assert files_in(vendored.folder / "vendor") == FILES - {PICKED} | {NEWER, mine}
    assert f"{NEWER}: written" in report.text()
    assert f"{PICKED}: removed" in report.text()
    vendored.remove("images").remove(".sparklock").build(locked=True)


def test_a_file_that_is_not_wanted_but_was_changed_is_left_and_told(vendored: Project) -> None:
    vendored.write(f"vendor/{PICKED}", "mine now")
    vendored.edit("models/new.py", "models/newer.py")
    vendored.edit('New = ["new", "New"]', 'New = ["newer", "Newer"]')

    report = vendored.lock()

    assert f"{PICKED}: not wanted, but changed by somebody else: left alone" in report.text()
    assert (vendored.folder / "vendor" / PICKED).read_text() == "mine now"


def changed(path: Path) -> None:
    path.write_text("other bytes")


def gone(path: Path) -> None:
    path.unlink()


def linked(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


@pytest.mark.parametrize("harm", [changed, gone, linked])
@pytest.mark.parametrize("path", [PICKED, f"base/files/{REGISTRY}", "base/config.json"])
def test_a_damaged_file_is_named_with_its_remedy(
    alone: Project, path: str, harm: Callable[[Path], None]
) -> None:
    harm(alone.folder / "vendor" / path)

    for call in (alone.check, lambda: alone.build(locked=True)):
        with pytest.raises(VendoredDifferError) as caught:
            call()
        (message,) = caught.value.messages
        assert caught.value.exit_code == 3
        assert message.place == f"{alone.folder}/vendor/{path}"
        assert "git restore" in message.remedy


def test_locking_mends_what_is_damaged(vendored: Project) -> None:
    for path in (PICKED, "base/config.json"):
        vendored.write(f"vendor/{path}", "other bytes")
    (vendored.folder / "vendor" / "SHA256SUMS").unlink()
    shutil.copy(vendored.folder / "vendor/.gitignore", vendored.folder / "vendor/mine")
    for path in (PICKED, "base/config.json"):
        (vendored.folder / "vendor" / path).unlink()

    vendored.lock()

    vendored.check()
    assert files_in(vendored.folder / "vendor") == FILES | {"mine"}


def test_a_list_of_other_files_is_not_the_lock_s(vendored: Project) -> None:
    (vendored.folder / "vendor" / "SHA256SUMS").write_text(f"{'0' * 64}  ../outside\nno line\n")

    with pytest.raises(VendoredDifferError, match="SHA256SUMS"):
        vendored.check()
    vendored.lock()
    vendored.check()


def test_a_file_of_somebody_else_is_not_written_over(project: Project) -> None:
    project.write("vendor/base/config.json", "mine")
    before = project.file.read_bytes()

    with pytest.raises(NotOurFileError) as caught:
        vendor(project)

    assert caught.value.exit_code == 3
    assert files_in(project.folder / "vendor") == {"base/config.json"}
    assert project.file.read_bytes() == before
    assert not project.lock_file.exists()


@pytest.mark.parametrize("path", ["vendor", "vendor/base", "vendor/SHA256SUMS"])
def test_no_link_is_followed_out_of_the_folder(project: Project, path: str) -> None:
    outside = project.folder / "outside"
    outside.mkdir()
    place = project.folder / path
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside if path != "vendor/SHA256SUMS" else outside / "sums")

    with pytest.raises(NotOurFileError):
        vendor(project)
    assert list(outside.iterdir()) == []


def test_a_folder_that_refuses_is_told(project: Project) -> None:
    project.write("vendor/donors", "a file where a folder has to be")

    with pytest.raises(VendorNotWritableError) as caught:
        vendor(project)
    assert caught.value.exit_code == 3


def test_another_folder_takes_the_place_of_the_first(vendored: Project) -> None:
    report = vendor(vendored, "third_party/images")

    assert not (vendored.folder / "vendor").exists()
    assert files_in(vendored.folder / "third_party/images") == FILES
    assert 'vendor = "third_party/images"\n' in vendored.file.read_text()
    assert "third_party/images" in report.text()
    vendored.check()


TAKEN = [
    "model",
    "model/kept",
    "images",
    "images/base/kept",
    ".sparklock",
    ".sparklock/store",
    ".git",
    "third/.git/x",
    "lockfile.json",
    "cluster.toml",
]


@pytest.mark.parametrize("folder", ["../elsewhere", "/absolute", ".", "", *TAKEN])
def test_a_folder_outside_of_the_repository_or_with_another_meaning_is_refused(
    project: Project, folder: str
) -> None:
    before = project.file.read_bytes()

    with pytest.raises(InvalidManifestError, match="vendor") as caught:
        vendor(project, folder)
    assert caught.value.exit_code == 2
    assert project.file.read_bytes() == before


def test_moving_an_input_takes_the_folder_along(vendored: Project) -> None:
    text = vendored.file.read_text()
    vendored.donor(tar_of(*DONOR, file(f"{VENV}/{MODELS}/new.py", b"class New: ...  # 2\n")))
    vendored.file.write_text(text)

    updating.update(vendored.file, "donors.tiny", Silent())

    assert (vendored.folder / "vendor" / PICKED).read_text() == "class New: ...  # 2\n"
    vendored.check()


def test_vendored_picks_spare_the_donor_when_the_store_is_gone(vendored: Project) -> None:
    vendored.remove("images/donor").remove(".sparklock")
    vendored.edit("max-model-len = 256", "max-model-len = 512")

    assert vendored.lock().written
    vendored.build(locked=True)


def test_git_keeps_every_byte_whatever_it_is_told_elsewhere(vendored: Project) -> None:
    """Line ends are converted and folders named lib are ignored by many people's settings."""
    text = vendored.file.read_text()
    vendored.donor(tar_of(*DONOR, file(f"{VENV}/{MODELS}/new.py", b"class New: ...\r\n# x\n")))
    vendored.lock()
    assert text != vendored.file.read_text()
    vendored.write(".gitignore", "lib/\nsite-packages/\n*.py\n.sparklock/\nimages/\n")
    for argv in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all"],
        ["clone", "--quiet", ".", "clone"],
    ):
        convert = ["-c", "core.autocrlf=true", "-c", "core.safecrlf=false"]
        subprocess.run(
            ["git", *convert, *argv], cwd=vendored.folder, check=True, capture_output=True
        )
    clone = vendored.folder / "clone"

    assert files_in(clone / "vendor") == FILES
    for path in FILES - {".gitattributes", ".gitignore"}:
        assert (clone / "vendor" / path).read_bytes() == (
            vendored.folder / "vendor" / path
        ).read_bytes()


def test_a_stale_lock_is_written_with_its_files_by_a_build(vendored: Project) -> None:
    vendored.base(tar_of(*BASE), tar_of(file("more")))

    pipeline.build(vendored.file, Silent())

    vendored.check()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_the_list_is_read_only_where_it_is_a_file_of_the_folder(
    vendored: Project, make: Callable[[Path], None]
) -> None:
    sums = vendored.folder / "vendor" / "SHA256SUMS"
    sums.unlink()
    make(sums)

    with pytest.raises(VendoredDifferError):
        vendored.check()
    with pytest.raises(NotOurFileError):
        vendored.lock()


def test_a_list_with_more_in_it_is_mended(vendored: Project) -> None:
    sums = vendored.folder / "vendor" / "SHA256SUMS"
    before = sums.read_bytes()
    sums.write_bytes(before + b"junk\n")

    with pytest.raises(VendoredDifferError, match="SHA256SUMS"):
        vendored.check()
    vendored.lock()
    assert sums.read_bytes() == before
