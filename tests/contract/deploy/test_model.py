from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.lock import ModelFile
from deploy import errors, node_errors
from deploy.edges.model import ModelFolder
from deploy.edges.transfer import Outgoing, Watch, put_files

if TYPE_CHECKING:
    from pathlib import Path

    from deploy.edges.ssh import NodeConnection

pytestmark = pytest.mark.lab
PAIR = "0123456789ab"
QUIET = Watch(told=lambda _: None, stopped=lambda: False)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """Our folder of model files."""
    folder = tmp_path / "ours"
    folder.mkdir()
    return folder


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """The model's folder on the node, which need not be there yet."""
    return tmp_path / "node" / "model with space"


@pytest.fixture
def model(connection: NodeConnection, theirs: Path) -> ModelFolder:
    return ModelFolder(connection, str(theirs))


def write(folder: Path, **texts: str) -> tuple[ModelFile, ...]:
    """Files whose names may have a folder, written with `__`; the files of a lock."""
    files = []
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = digest_bytes(text.encode())
        files.append(
            ModelFile(path=name.replace("__", "/"), size_bytes=len(text.encode()), digest=digest)
        )
    return tuple(files)


def texts(folder: Path) -> dict[str, str]:
    """Every file below a folder, our own excepted."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    found = {str(path.relative_to(folder)): path.read_text() for path in paths}
    return {name: text for name, text in found.items() if not name.startswith(".sparklock/")}


def test_files_come_whole_into_a_folder_that_was_not_there(
    model: ModelFolder, ours: Path, theirs: Path
) -> None:
    files = write(ours, config="{}", weights__a="aaa", weights__b="aaa", empty="", ünï="ö\n")
    assert model.observe(files) == ((), False)
    assert model.send(files, ours, QUIET) == sum(file.size_bytes for file in files)
    assert texts(theirs) == {}
    model.place(files, (), PAIR)
    assert texts(theirs) == texts(ours)
    facts, transfer = ModelFolder(model._connection, str(theirs)).observe(files)
    assert {fact.path: fact.digest for fact in facts} == {f.path: f.digest for f in files}
    assert not transfer


def test_a_file_of_more_than_one_chunk_arrives_and_is_told_of(
    model: ModelFolder, ours: Path, theirs: Path
) -> None:
    files = write(ours, big="0123456789" * 300_000)
    told: list[int] = []
    model.send(files, ours, Watch(told.append, stopped=lambda: False))
    model.place(files, (), PAIR)
    assert texts(theirs) == texts(ours)
    assert told == sorted(told)
    assert told[-1] == 3_000_000


def test_an_interrupted_transfer_continues_with_what_is_missing(
    model: ModelFolder, ours: Path
) -> None:
    files = write(ours, one="1", two="22")
    model.send(files[:1], ours, QUIET)
    assert model.observe(files) == ((), True)
    assert model.send(files, ours, QUIET) == 2


def test_a_transfer_that_is_told_to_stop_leaves_nothing_under_a_final_name(
    model: ModelFolder, ours: Path, theirs: Path
) -> None:
    files = write(ours, big="x" * 3_000_000)
    with pytest.raises(errors.DeployInterruptedError):
        model.send(files, ours, Watch(lambda _: None, stopped=lambda: True))
    names = [path.name for path in (theirs / ".sparklock/in").iterdir()]
    assert all(name.endswith(".part") for name in names)


def test_a_file_that_is_not_the_locked_one_is_not_sent_as_such(
    model: ModelFolder, ours: Path
) -> None:
    files = write(ours, same_size="locked", shorter="locked", gone="locked")
    (ours / "same_size").write_text("edited")
    (ours / "shorter").write_text("cut")
    (ours / "gone").unlink()
    for file, found in zip(
        files, (digest_bytes(b"edited"), "3 bytes", "No such file"), strict=True
    ):
        with pytest.raises(node_errors.ModelFileChangedError) as caught:
            model.send([file], ours, QUIET)
        assert found in caught.value.found
        assert caught.value.exit_code == 3


def test_replaced_files_are_kept_until_the_model_is_settled(
    model: ModelFolder, ours: Path, theirs: Path
) -> None:
    write(theirs, weights__a="old", other="theirs")
    files = write(ours, weights__a="new", config="new")
    model.send(files, ours, QUIET)
    model.place(files, ("weights/a",), PAIR)
    assert texts(theirs) == {"weights/a": "new", "config": "new", "other": "theirs"}
    assert (theirs / f".sparklock/old/{PAIR}/weights/a").read_text() == "old"
    model.settle()
    assert texts(theirs) == {"weights/a": "new", "config": "new", "other": "theirs"}
    assert not (theirs / ".sparklock/old").exists()


@pytest.mark.parametrize("placed", [0, 1, 2])
def test_restoring_undoes_a_placing_however_far_it_came(
    model: ModelFolder, ours: Path, theirs: Path, placed: int
) -> None:
    write(theirs, weights__a="old")
    files = write(ours, weights__a="new", config="new")
    model.send(files, ours, QUIET)
    model.place(files[:placed], ("weights/a",)[:placed], PAIR)
    model.restore(files, PAIR)
    assert texts(theirs) == {"weights/a": "old"}
    assert model.send(files, ours, QUIET) == 0


def test_what_was_kept_first_is_what_comes_back(
    model: ModelFolder, ours: Path, theirs: Path
) -> None:
    write(theirs, config="confirmed")
    files: tuple[ModelFile, ...] = ()
    for text in ("killed deploy", "failed deploy"):
        files = write(ours, config=text)
        model.send(files, ours, QUIET)
        model.place(files, ("config",), PAIR)
    model.restore(files, PAIR)
    assert texts(theirs) == {"config": "confirmed"}


def test_what_a_killed_deploy_replaced_comes_back_when_the_next_one_had_nothing_to_place(
    model: ModelFolder, ours: Path, theirs: Path
) -> None:
    write(theirs, config="confirmed")
    files = write(ours, config="killed deploy")
    model.send(files, ours, QUIET)
    model.place(files, ("config",), PAIR)
    model.place((), (), PAIR)
    model.restore((), PAIR)
    assert texts(theirs) == {"config": "confirmed"}


def test_a_link_is_followed_when_read_and_replaced_itself(
    model: ModelFolder, ours: Path, theirs: Path
) -> None:
    write(theirs.parent, blob="old")
    theirs.mkdir()
    (theirs / "config").symlink_to("../blob")
    files = write(ours, config="old")
    (fact,), _ = model.observe(files)
    assert fact.digest == digest_bytes(b"old")
    files = write(ours, config="new")
    model.send(files, ours, QUIET)
    model.place(files, ("config",), PAIR)
    assert (theirs.parent / "blob").read_text() == "old"
    model.restore(files, PAIR)
    assert (theirs / "config").is_symlink()


@pytest.mark.parametrize(
    ("link", "hidden"),
    [
        ("config -> ../beside/config", True),
        ("config -> sub/../kept", False),
        ("weights -> ../beside", True),
    ],
)
def test_a_right_file_that_lies_outside_of_the_folder_is_hidden(
    model: ModelFolder, ours: Path, theirs: Path, link: str, *, hidden: bool
) -> None:
    path, _, target = link.partition(" -> ")
    write(theirs.parent / "beside", config="{}", a="1")
    write(theirs, kept="{}", sub__x="")
    (theirs / path).symlink_to(target)
    model.observe(write(ours, weights__a="1") if path == "weights" else write(ours, config="{}"))
    assert model.hidden == (link if hidden else "")


def test_a_link_out_of_the_folder_that_will_be_replaced_hides_nothing(
    model: ModelFolder, ours: Path, theirs: Path
) -> None:
    write(theirs.parent, blob="old")
    theirs.mkdir()
    (theirs / "config").symlink_to("../blob")
    model.observe(write(ours, config="new"))
    assert model.hidden == ""


def test_a_file_of_another_size_is_not_hashed(model: ModelFolder, ours: Path, theirs: Path) -> None:
    write(theirs, config="something longer")
    (fact,), _ = model.observe(write(ours, config="{}"))
    assert (fact.size_bytes, fact.digest) == (16, None)


def test_noted_hashes_are_trusted_while_a_file_has_not_changed(
    connection: NodeConnection, ours: Path, theirs: Path
) -> None:
    files = write(ours, config="{}")
    write(theirs, config="{}")
    first = ModelFolder(connection, str(theirs))
    first.observe(files)
    first.remember()
    note = theirs / ".sparklock/seen"
    note.write_text(note.read_text().replace(files[0].digest, digest_bytes(b"trusted")))
    (fact,), _ = ModelFolder(connection, str(theirs)).observe(files)
    assert fact.digest == digest_bytes(b"trusted")
    stat = (theirs / "config").stat()
    (theirs / "config").write_text("[]")
    os.utime(theirs / "config", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (fact,), _ = ModelFolder(connection, str(theirs)).observe(files)
    assert fact.digest == digest_bytes(b"[]")


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"\0\0\0", b"a\0b\0\0", b"[]", b'{"config": 7}', b"\xff"]
)
def test_a_note_that_is_damaged_is_as_good_as_none(
    connection: NodeConnection, ours: Path, theirs: Path, damage: bytes
) -> None:
    files = write(ours, config="{}")
    write(theirs, config="{}")
    (theirs / ".sparklock").mkdir()
    (theirs / ".sparklock/seen").write_bytes(damage)
    (fact,), _ = ModelFolder(connection, str(theirs)).observe(files)
    assert fact.digest == files[0].digest


def test_what_was_sent_is_noted_when_it_is_settled(
    connection: NodeConnection, model: ModelFolder, ours: Path, theirs: Path
) -> None:
    files = write(ours, config="{}", weights="www")
    model.send(files, ours, QUIET)
    model.place(files, (), PAIR)
    (theirs / "weights").write_text("xxx")
    model.settle()
    note = json.loads((theirs / ".sparklock/seen").read_text())
    assert set(note) == {"config"}
    facts, transfer = ModelFolder(connection, str(theirs)).observe(files)
    assert [fact.digest for fact in facts] == [files[0].digest, digest_bytes(b"xxx")]
    assert not transfer


@pytest.mark.parametrize("note", ["", "{", "[]", '{"config": 1}', '{"config": ["x", "y"]}', "\xff"])
def test_a_spoiled_note_is_no_note(
    connection: NodeConnection, ours: Path, theirs: Path, note: str
) -> None:
    files = write(ours, config="{}")
    write(theirs, config="{}")
    (theirs / ".sparklock").mkdir()
    (theirs / ".sparklock/seen").write_bytes(note.encode("latin-1"))
    (fact,), _ = ModelFolder(connection, str(theirs)).observe(files)
    assert fact.digest == files[0].digest


def test_a_folder_that_cannot_be_written_is_told_with_tars_own_words(
    connection: NodeConnection, ours: Path
) -> None:
    files = write(ours, config="{}")
    outgoing = [Outgoing(ours / f.path, f.path, f.size_bytes, f.digest) for f in files]
    with pytest.raises(node_errors.RemoteCommandError) as caught:
        put_files(connection, "/proc/nowhere", outgoing, QUIET)
    assert "tar" in caught.value.detail
