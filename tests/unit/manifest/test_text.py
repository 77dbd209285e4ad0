"""What is said of a manifest that is no TOML text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.edges.files import read_manifest
from builder.errors import ManifestError

if TYPE_CHECKING:
    from tests.unit.manifest.conftest import Folder


def said_of(folder: Folder, data: bytes) -> str:
    file = folder.path / "cluster.toml"
    file.write_bytes(data)
    return said_of_path(folder, file)


def said_of_path(folder: Folder, file: Path) -> str:
    with pytest.raises(ManifestError) as caught:
        read_manifest(file)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{folder.path}/", "")


def test_no_file_at_all(folder: Folder) -> None:
    assert said_of_path(folder, folder.path / "absent.toml") == (
        "absent.toml: there is no manifest\n"
        "  expected: a TOML file that describes the image, the model and the nodes\n"
        "  found:    no such file\n"
        "  remedy:   run it in the repository's folder, name the file with --file, "
        "or copy one of examples/"
    )


@pytest.mark.parametrize("name", ["model", "x" * 300, "a\0b", "node/chat.jinja/cluster.toml"])
def test_a_path_that_cannot_be_read(folder: Folder, name: str) -> None:
    said = said_of_path(folder, folder.path / name)
    assert said.startswith(f"{name}: the manifest cannot be read\n  expected: a readable file\n")
    assert said.endswith("  remedy:   name a file that you may read, with --file")


def test_a_path_that_need_never_end(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe.toml")
    for path in (folder.path / "pipe.toml", Path("/dev/zero")):
        assert "  found:    not a regular file\n" in said_of_path(folder, path)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# only a comment\n", b"\xef\xbb\xbf"])
def test_an_empty_file(folder: Folder, data: bytes) -> None:
    assert said_of(folder, data) == (
        "cluster.toml:1: the manifest is empty\n"
        "  expected: [image], [vllm], [model], [serve] and [[nodes]]\n"
        "  found:    no key at all\n"
        "  remedy:   copy one of examples/ and change it"
    )


def test_bytes_that_are_not_utf_8(folder: Folder) -> None:
    assert said_of(folder, b'schema = 1\nname = "caf\xe9"\n') == (
        "cluster.toml:2: the manifest is not UTF-8\n"
        "  expected: UTF-8 text, as TOML demands\n"
        "  found:    byte 0xe9 at offset 22\n"
        "  remedy:   save the file as UTF-8"
    )


@pytest.mark.parametrize(
    ("text", "place", "problem", "found"),
    [
        (
            "schema = 1\nname pair\n",
            "2:6",
            "Expected '=' after a key in a key/value pair",
            "the character 'p'",
        ),
        ("schema = 1\r\nname = \r\n", "2:8", "Invalid value", "the end of the line"),
        ("schema = 1\nschema = 2\n", "2:11", "Cannot overwrite a value", "the end of the line"),
        ("[image]\n[image]\n", "2:7", "Cannot declare ('image',) twice", "the character ']'"),
        ("a = [1,\n", "2:1", "Invalid value", "the end of the file"),
        ("a = ['b'+, 'c']", "1:9", "Unclosed array", "the character '+'"),
        ("a = 1979-02-30", "1:5", "Invalid date or datetime", "the character '1'"),
        ("name = pair", "1:8", "Invalid value", "the character 'p'"),
        ("n = '\x07'", "1:6", "Found invalid character '\\x07'", "the character '\\x07'"),
    ],
)
def test_a_mistake_in_toml_is_told_with_line_and_column(
    folder: Folder, text: str, place: str, problem: str, found: str
) -> None:
    assert said_of(folder, text.encode()) == (
        f"cluster.toml:{place}: the manifest is not TOML: {problem}\n"
        "  expected: a [table], a [[list item]] or key = value on each line\n"
        f"  found:    {found}\n"
        "  remedy:   correct this line; text needs quotes, and each name may appear once"
    )


@pytest.mark.parametrize("levels", [40, 200, 300, 400, 450, 480, 500, 9000])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ("{a = ", "}")])
def test_nesting_that_is_too_deep(folder: Folder, levels: int, start: str, end: str) -> None:
    said = said_of(folder, f"a = {start * levels}1{end * levels}".encode())
    assert ":1:1: the manifest is not TOML: lists or tables are nested too deeply\n" in said


def test_a_dotted_key_that_is_too_deep(folder: Folder, good_text: str) -> None:
    said = said_of(folder, f"{good_text}\na{'.a' * 400} = 1\n".encode())
    assert said.startswith(
        "cluster.toml:64:1: the manifest is not TOML: lists or tables are nested"
    )
    assert "  found:    more than 32 levels\n" in said


def test_a_number_with_more_digits_than_python_reads(folder: Folder) -> None:
    assert "the manifest is not TOML: a number has too many digits" in said_of(
        folder, b"a = " + b"9" * 5000
    )


def test_line_ends_and_a_byte_order_mark_of_windows_change_nothing(
    folder: Folder, good_text: str
) -> None:
    plain = folder.read(good_text)
    windows = folder.read("\ufeff" + good_text.replace("\n", "\r\n"))
    assert windows == plain


def test_a_place_has_file_line_and_location(folder: Folder, good_text: str) -> None:
    loaded = folder.read(good_text)
    file = folder.path / "cluster.toml"
    assert loaded.place("nodes[1].fabric.address") == f"{file}:59: nodes[1].fabric.address"
    assert loaded.place("image.donors.tiny.digest") == f"{file}:11: image.donors.tiny.digest"
    assert loaded.place("container.mounts[0]") == f"{file}:42: container.mounts[0]"
    assert loaded.place("ssh.config") == f"{file}:1: ssh.config"
    assert loaded.place("") == f"{file}:1"


def test_a_manifest_knows_its_folder_and_its_lock(folder: Folder, good_text: str) -> None:
    loaded = folder.read(good_text)
    assert loaded.folder == folder.path
    assert loaded.lock_path == folder.path / "lockfile.json"
    assert loaded.name == str(folder.path / "cluster.toml")


def test_tables_may_come_in_any_order(folder: Folder, good_text: str) -> None:
    """The text's tables reversed, but for [[lists]] and what follows them, whose order counts."""
    plain, rest = good_text.split("[[image.graft]]")
    head, *tables = plain.split("\n\n")
    shuffled = "\n\n".join([head, *reversed(tables), "[[image.graft]]" + rest])
    assert shuffled != good_text
    assert folder.read(shuffled).manifest == folder.read(good_text).manifest
