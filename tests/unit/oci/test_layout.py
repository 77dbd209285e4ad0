from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builder.digest import hex_of
from builder.edges.layout import LayoutSource, write_layout
from builder.oci.errors import (
    DigestMismatchError,
    MissingLayoutError,
    NotALayoutError,
    StorageError,
)
from builder.oci.image_errors import MalformedDocumentError
from builder.oci.model import OCI_MANIFEST
from builder.oci.select import MAX_DOCUMENT_BYTES
from tests.unit.oci.archives import Published, file, tar_of

if TYPE_CHECKING:
    from pathlib import Path

LAYER = tar_of(file("a", b"1"))


def written(folder: Path, *tars: bytes, name: str | None = None) -> Published:
    published = Published()
    image = published.image(*(tars or (LAYER,)))
    write_layout(folder, image, published.source.open_blob, name=name)
    return published


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_layout_holds_marker_index_and_blobs_and_nothing_else(tmp_path: Path) -> None:
    published = written(tmp_path / "out")

    blobs = sorted(f"blobs/sha256/{hex_of(digest)}" for digest in published.source.blobs)
    assert names(tmp_path / "out") == [*blobs, "index.json", "oci-layout"]


def test_the_index_is_canonical_and_names_the_platform(tmp_path: Path) -> None:
    published = written(tmp_path, name="v1")
    (top,) = published.source.tops

    raw = (tmp_path / "index.json").read_bytes()
    index = json.loads(raw)
    assert raw == json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
    assert index["manifests"] == [
        {
            **top.as_json(),
            "platform": {"os": "linux", "architecture": "amd64"},
            "annotations": {"org.opencontainers.image.ref.name": "v1"},
        }
    ]


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        written(tmp_path / folder)

    for name in names(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_new_image_replaces_the_old_one_whole(tmp_path: Path) -> None:
    written(tmp_path, tar_of(file("old")))
    fresh = written(tmp_path)

    assert LayoutSource(tmp_path).roots() == fresh.source.roots()
    assert len(names(tmp_path)) == len(fresh.source.blobs) + 2


def test_a_failed_write_leaves_the_old_image_readable(tmp_path: Path) -> None:
    old = written(tmp_path, tar_of(file("old")))
    published = Published()
    image = published.image(LAYER)
    published.source.blobs[image.layers[0].descriptor.digest] = LAYER[:-1] + b"x"

    with pytest.raises(DigestMismatchError):
        write_layout(tmp_path, image, published.source.open_blob)

    assert LayoutSource(tmp_path).roots() == old.source.roots()
    assert not [name for name in names(tmp_path) if "writing" in name]


def test_files_are_readable_by_all_whatever_the_umask(tmp_path: Path) -> None:
    written(tmp_path)

    assert {(tmp_path / name).stat().st_mode & 0o777 for name in names(tmp_path)} == {0o644}


@pytest.mark.parametrize("found", ["file", "folder"])
def test_something_else_is_not_written_over(tmp_path: Path, found: str) -> None:
    target = tmp_path / "out"
    if found == "file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / "mine").write_text("mine")

    with pytest.raises(NotALayoutError):
        written(target)
    assert names(tmp_path) == ["out" if found == "file" else "out/mine"]


def test_an_empty_folder_is_fine(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    written(tmp_path / "out")

    assert LayoutSource(tmp_path / "out").roots()


@pytest.mark.parametrize("missing", ["", "oci-layout", "index.json"])
def test_a_folder_that_is_no_layout_names_the_missing_file(tmp_path: Path, missing: str) -> None:
    folder = tmp_path / "layout"
    if missing:
        written(folder)
        (folder / missing).unlink()

    with pytest.raises(MissingLayoutError) as caught:
        LayoutSource(folder).roots()
    assert caught.value.missing == (missing or "oci-layout")
    assert f"oci:{folder}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("index.json", "no json"),
        ("index.json", "[]"),
        ("index.json", '{"schemaVersion":2}'),
        ("index.json", '{"schemaVersion":2,"manifests":[{"digest":"sha256:1"}]}'),
        ("oci-layout", "no json"),
        ("oci-layout", "{}"),
        ("oci-layout", '{"imageLayoutVersion":"2.0.0"}'),
    ],
)
def test_a_malformed_layout_is_named_with_its_file(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path)
    (tmp_path / name).write_text(text)

    with pytest.raises(MalformedDocumentError) as caught:
        LayoutSource(tmp_path).roots()
    assert caught.value.place == f"oci:{tmp_path}/{name}"


def test_a_huge_blob_is_not_read_as_a_document(tmp_path: Path) -> None:
    published = Published()
    image = published.image(bytes(MAX_DOCUMENT_BYTES + 1))
    write_layout(tmp_path, image, published.source.open_blob)

    with pytest.raises(MalformedDocumentError) as caught:
        LayoutSource(tmp_path).document(image.layers[0].descriptor.digest, media_type=OCI_MANIFEST)
    assert str(MAX_DOCUMENT_BYTES) in caught.value.problems[0]


def test_a_layout_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StorageError):
        written(tmp_path / "file" / "out")


def test_roots_are_sorted_by_digest(tmp_path: Path) -> None:
    published = written(tmp_path)
    (top,) = published.source.tops
    others = [top.as_json() | {"digest": "sha256:" + digit * 64} for digit in "f05"]
    index = {"schemaVersion": 2, "manifests": others}
    (tmp_path / "index.json").write_text(json.dumps(index))

    digests = [root.digest for root in LayoutSource(tmp_path).roots()]
    assert digests == sorted(digests)
    assert len(digests) == 3


def test_a_layout_that_cannot_be_looked_into_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="File name too long"):
        LayoutSource(tmp_path / ("x" * 300)).roots()
