from __future__ import annotations

import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.digest import hex_of
from builder.edges.archive import ArchiveSource
from builder.edges.output import OutputKind, output_at
from builder.errors import SparklockError
from builder.oci.errors import DigestMismatchError, NotALayoutError, StorageError
from builder.options import OptionError
from builder.progress import Silent
from tests.repository import files
from tests.validate import validate_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.project import Project


def test_a_file_is_an_archive_that_we_read_back(project: Project, tmp_path: Path) -> None:
    out = tmp_path / "new" / "image.tar"

    built = project.build(output=out)

    source = ArchiveSource(out, spool=tmp_path)
    (root,) = source.roots()
    assert root == built.image.manifest.descriptor
    assert validate_image(source, root) == built.image
    assert f"{out} (archive" in built.text()
    assert [path.name for path in out.parent.iterdir()] == ["image.tar"]


def test_the_archive_gives_the_image_the_name_that_deploy_gives_it(
    project: Project, tmp_path: Path
) -> None:
    digest = project.build(output=tmp_path / "x.tar").lock.outputs.manifest_digest
    with tarfile.open(tmp_path / "x.tar") as tar:
        listed = tar.extractfile("manifest.json")
        assert listed is not None
        assert f'"RepoTags":["sparklock/small:{hex_of(digest)[:12]}"]' in listed.read().decode()


def test_an_archive_can_be_the_base_of_another_project(project: Project) -> None:
    built = project.build(output=project.folder / "hybrid.tar")
    project.edit("oci:images/base", "archive:hybrid.tar")
    project.edit(built.lock.image.base.manifest_digest, built.lock.outputs.manifest_digest)

    assert len(project.build().image.layers) == 3


def test_layout_and_archive_hold_the_same_blobs(project: Project, tmp_path: Path) -> None:
    project.build(output=tmp_path / "layout")
    project.build(output=tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as tar:
        tar.extractall(tmp_path / "unpacked")  # noqa: S202 - it is our own

    layout, unpacked = files(tmp_path / "layout"), files(tmp_path / "unpacked")
    assert unpacked.keys() - layout.keys() == {"manifest.json"}
    for name in layout.keys() - {"index.json"}:
        assert unpacked[name] == layout[name]


def test_two_writings_are_the_same_bytes_and_the_second_keeps_the_mode(
    project: Project, tmp_path: Path
) -> None:
    out = tmp_path / "image.tar"
    project.build(output=out)
    first = out.read_bytes()
    out.chmod(0o600)

    project.build(output=out)

    assert out.read_bytes() == first
    assert out.stat().st_mode & 0o777 == 0o600


def test_a_base_that_breaks_on_the_way_leaves_the_old_archive(
    project: Project, tmp_path: Path
) -> None:
    out = tmp_path / "out" / "image.tar"
    built = project.build(output=out)
    old = out.read_bytes()
    layer = project.blob("base", built.image.layers[0].descriptor.digest)
    layer.write_bytes(layer.read_bytes().replace(b"Old", b"New"))

    with pytest.raises(DigestMismatchError):
        project.build(output=out)

    assert out.read_bytes() == old
    assert [path.name for path in out.parent.iterdir()] == ["image.tar"]


def test_progress_counts_every_layer_once(project: Project, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    class Told(Silent):
        def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
            if what == "layers":
                told.append((done_bytes, total_bytes))

    built = pipeline.build(project.file, Told(), output=tmp_path / "image.tar")

    total = sum(layer.descriptor.size_bytes for layer in built.image.layers)
    assert told[-1] == (total, total)
    assert sorted(told) == told


# --- what a path is to get -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["image", "image-1.0", "image.layout", "a.tar/b"])
def test_another_new_name_becomes_a_layout(tmp_path: Path, name: str) -> None:
    assert output_at(tmp_path / name).kind is OutputKind.LAYOUT


@pytest.mark.parametrize("name", ["image.tar", "IMAGE.TAR", "image-1.0.tar", "new/image.tar"])
def test_a_name_that_ends_in_tar_becomes_an_archive(tmp_path: Path, name: str) -> None:
    assert output_at(tmp_path / name).kind is OutputKind.ARCHIVE


def test_what_is_there_decides(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "old.tar").write_bytes(b"")
    assert output_at(tmp_path / "empty").kind is OutputKind.LAYOUT
    assert output_at(tmp_path / "old.tar").kind is OutputKind.ARCHIVE


def unclear(folder: Path) -> dict[str, Path]:
    (folder / "layout.tar").mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "image").write_text("mine")
    os.mkfifo(folder / "pipe.tar")
    return {path.name: path for path in folder.iterdir()} | {
        name: folder / name for name in ("image.tar.gz", "image.tgz", "image.tar.zst", "image.zip")
    }


def test_where_name_and_what_is_there_disagree_nothing_is_begun(project: Project) -> None:
    folder = project.folder / "out"
    folder.mkdir()
    paths = unclear(folder)
    for path in paths.values():
        with pytest.raises(OptionError) as caught:
            project.build(output=path)
        (message,) = caught.value.messages
        assert str(path) in message.place
        assert "FILE.tar" in message.expected
    assert (folder / "notes.txt").read_text() == "mine"
    assert not project.lock_file.exists(), "refused before any work"
    assert len(paths) == 8


def test_a_folder_with_other_things_is_refused_before_any_work(project: Project) -> None:
    with pytest.raises(NotALayoutError):
        project.build(output=project.folder / "model")
    assert not project.lock_file.exists()


def test_a_place_that_cannot_be_looked_at_is_told_before_any_work(project: Project) -> None:
    with pytest.raises(StorageError, match="File name too long"):
        project.build(output=project.folder / ("x" * 300))
    assert not project.lock_file.exists()


def test_a_place_that_cannot_be_written_is_told(project: Project, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError) as caught:
        project.build(output=tmp_path / "file" / "image.tar")
    assert "cannot write an archive" in str(caught.value)


@pytest.mark.parametrize(
    "place", ["images/base", "link", "images/donor", "kept.tar", "model/of.tar", "files/own.tar"]
)
def test_nothing_is_written_over_what_the_manifest_reads(project: Project, place: str) -> None:
    project.build(output=project.folder / "kept.tar")
    project.write("files/own.tar", "own")
    project.write("model/of.tar", "model")
    (project.folder / "link").symlink_to("images/base")
    project.edit(
        "[[image.graft]]", '[image.donors.more]\nsource = "archive:kept.tar"\n\n[[image.graft]]'
    )
    project.edit('source = "files/template.jinja"', 'source = "files/own.tar"')
    project.edit(
        "[[image.register]]",
        '[[image.graft]]\ndonor = "more"\npackage = "vllm"\nfiles = ["a.py"]\n\n[[image.register]]',
    )
    before = files(project.folder)

    with pytest.raises(OptionError, match="reads nothing from"):
        project.build(output=project.folder / place)
    assert files(project.folder) == before


def test_no_tag_is_pushed_over_that_the_manifest_reads(project: Project) -> None:
    project.edit("oci:images/base", "example.org/vllm/base:v1")
    for target in ("example.org/vllm/base:v1", "example.org/vllm/base"):
        with pytest.raises(SparklockError) as caught:
            pipeline.build(project.file, Silent(), locked=True, push=target)
        refused = isinstance(caught.value, OptionError)
        assert refused == target.endswith(":v1")
