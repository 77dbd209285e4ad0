"""Files beside the manifest: their digests, and what is said of those that cannot be used."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.edges.files import read_manifest, read_values
from builder.errors import ManifestError
from builder.lock import ModelFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.manifest.conftest import Folder


def test_own_files_and_model_files_are_known_by_size_and_digest(
    folder: Folder, good_text: str
) -> None:
    (folder.path / "model/sub").mkdir()
    (folder.path / "model/sub/b.bin").write_bytes(b"\0" * 3_000_000)
    (folder.path / "model/a.json").write_bytes(b"")
    loaded = folder.read(good_text)
    assert loaded.own_files == {
        "node/chat.jinja": ModelFile(
            path="node/chat.jinja", size_bytes=5, digest=digest_bytes(b"chat\n")
        )
    }
    assert loaded.model_files == (
        ModelFile(path="a.json", size_bytes=0, digest=digest_bytes(b"")),
        ModelFile(path="config.json", size_bytes=3, digest=digest_bytes(b"{}\n")),
        ModelFile(path="sub/b.bin", size_bytes=3_000_000, digest=digest_bytes(b"\0" * 3_000_000)),
    )


def test_values_alone_are_read_without_any_file_beside_the_manifest(
    folder: Folder, good_text: str
) -> None:
    manifest = folder.read(good_text).manifest
    (folder.path / "model/config.json").unlink()

    assert read_values(folder.path / "cluster.toml") == manifest
    with pytest.raises(ManifestError):
        read_manifest(folder.path / "cluster.toml")


def test_values_alone_are_checked_as_ever(folder: Folder) -> None:
    (folder.path / "cluster.toml").write_text(
        folder.changed(("tensor_parallel = 2", "tensor_parallel = 0"))
    )
    with pytest.raises(ManifestError, match="from 1 on"):
        read_values(folder.path / "cluster.toml")


def test_a_model_of_the_hub_has_no_files_here(folder: Folder) -> None:
    text = folder.changed(('files = "model"', f'repo = "o/n"\nrevision = "{"a" * 40}"'))
    assert folder.read(text).model_files == ()


def test_a_model_folder_may_be_outside_of_the_manifests(folder: Folder, good_text: str) -> None:
    inner = folder.path / "inner"
    (inner / "node").mkdir(parents=True)
    (inner / "node/chat.jinja").write_text("chat\n")
    text = folder.changed(('files = "model"', 'files = "../model"'))
    (inner / "cluster.toml").write_text(text)
    found = read_manifest(inner / "cluster.toml").model_files
    assert [file.path for file in found] == ["config.json"]
    assert found == folder.read(good_text).model_files


def link(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def socket_instead(path: Path) -> None:
    path.unlink()
    socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))


@pytest.mark.parametrize(
    ("spoil", "path", "found"),
    [
        ((lambda path: path.unlink()), "node/chat.jinja", "no such file or directory"),
        (link, "node/chat.jinja", "a symbolic link"),
        (folder_instead, "node/chat.jinja", "a folder"),
        (socket_instead, "node/chat.jinja", "a device, pipe or socket"),
        (link, "node", "node is a symbolic link"),
    ],
)
def test_an_own_file_that_cannot_be_used(
    folder: Folder, good_text: str, spoil: Callable[[Path], None], path: str, found: str
) -> None:
    spoil(folder.path / path)
    assert folder.error(good_text) == (
        "cluster.toml:26: image.file[0].source: a file that cannot be used\n"
        "  expected: a regular file beside the manifest\n"
        f"  found:    node/chat.jinja: {found}\n"
        "  remedy:   put the file there (a copy, no link), or correct the path"
    )


def test_a_source_with_a_name_that_no_system_takes(folder: Folder) -> None:
    said = folder.error(folder.changed(("node/chat.jinja", "x" * 300)))
    assert f"  found:    {'x' * 300}: file name too long\n" in said


def no_files(path: Path) -> None:
    (path / "config.json").unlink()
    (path / "empty").mkdir()


def no_folder(path: Path) -> None:
    no_files(path)
    (path / "empty").rmdir()
    path.rmdir()


def file_instead(path: Path) -> None:
    no_folder(path)
    path.write_text("")


def line_end_in_a_name(path: Path) -> None:
    (path / "a\nb").write_text("")


def bytes_in_a_name(path: Path) -> None:
    (path / os.fsdecode(b"\xff")).write_text("")


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (no_files, "model: an empty folder"),
        (no_folder, "model: no such file or directory"),
        (file_instead, "model: a regular file"),
        (link, "model: a symbolic link"),
        (line_end_in_a_name, "model: the name 'a\\nb' in it is not printable text"),
        (bytes_in_a_name, "model: the name '\\udcff' in it is not printable text"),
        ((lambda path: link(path / "config.json")), "model/config.json: a symbolic link"),
        ((lambda path: os.mkfifo(path / "pipe")), "model/pipe: a device, pipe or socket"),
    ],
)
def test_a_model_folder_that_cannot_be_used(
    folder: Folder, good_text: str, spoil: Callable[[Path], None], found: str
) -> None:
    spoil(folder.path / "model")
    said = folder.error(good_text)
    assert said.startswith("cluster.toml:33: model.files: a file that cannot be used\n")
    assert f"\n  found:    {found}\n" in said
    assert said.count("remedy:   put the file there (a copy, no link), or correct the path") == 1


def test_a_link_below_the_model_folder_leads_nowhere(folder: Folder, good_text: str) -> None:
    (folder.path / "model/up").symlink_to("..")
    said = folder.error(good_text)
    assert "model/up: a symbolic link" in said


def test_every_file_that_cannot_be_used_is_told(folder: Folder, good_text: str) -> None:
    (folder.path / "node/chat.jinja").unlink()
    os.mkfifo(folder.path / "model/a")
    os.mkfifo(folder.path / "model/b")
    found = [line for line in folder.error(good_text).splitlines() if "found:" in line]
    assert [line.split()[1] for line in found] == ["node/chat.jinja:", "model/a:", "model/b:"]
