"""Writing the lock, and knowing when it does not belong to the manifest and its files."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.errors import BuildError, ManifestError
from builder.graft.acceptance import ClosureError
from builder.lock_errors import (
    LockConflictError,
    LockNotFoundError,
    LockNotWritableError,
    LockVersionError,
)
from builder.lockfile import lock_text, parse_lock
from builder.pipeline_errors import (
    CheckpointConfigError,
    OtherFormatsError,
    StaleLockError,
)
from tests.project import DONOR, MODELS, VENV, Project, changed_paths, rewritten
from tests.unit.oci.archives import file, tar_of

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER = digest_bytes(b"something else")


def test_the_first_lock_is_new_and_canonical(project: Project) -> None:
    report = project.lock()

    text = project.lock_file.read_bytes()
    assert report.new
    assert report.written
    assert report.changes == ()
    assert lock_text(parse_lock(text, place="lockfile.json")) == text
    assert report.text().startswith(f"{project.lock_file} written: image sha256:")


def test_locking_again_writes_nothing(project: Project) -> None:
    project.lock()
    before = project.lock_file.stat()

    report = project.lock()

    after = project.lock_file.stat()
    assert not report.written
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert "is current" in report.text()


def test_a_changed_lock_names_every_change(project: Project) -> None:
    project.lock()
    project.edit("max-model-len = 256", "max-model-len = 512")

    report = project.lock()

    assert [change.path for change in report.changes] == ["cluster_digest"]
    assert report.text().splitlines()[1].startswith("  cluster_digest: sha256:")


def test_a_report_in_json_has_digests_and_changes(project: Project) -> None:
    project.lock()
    project.edit('name = "small"', 'name = "smaller"')

    report = json.loads(json.dumps(project.lock().as_json()))

    lock = project.read_lock()
    changes = report.pop("changes")
    assert report == {
        "image_compared": True,
        "accepted": [],
        "vendored": None,
        "written": True,
        "lock_digest": digest_bytes(project.lock_file.read_bytes()),
        "manifest_digest": lock.outputs.manifest_digest,
        "config_digest": lock.outputs.config_digest,
    }
    assert changes[0] == {"path": "name", "before": "small", "after": "smaller"}


def test_checking_reads_no_source_and_writes_nothing(project: Project) -> None:
    lock = project.lock().lock
    shutil.rmtree(project.folder / ".sparklock")
    shutil.rmtree(project.folder / "images")
    before = sorted(project.folder.rglob("*"))

    report = project.check()

    assert report.lock == lock
    assert not report.written
    assert report.lacking == (4, 4)
    assert "not compared: the image, since the store lacks 4 of its 4 inputs" in report.text()
    assert sorted(project.folder.rglob("*")) == before


def test_checking_with_a_store_compares_the_image_and_writes_nothing(project: Project) -> None:
    lock = project.lock().lock
    project.store.path(lock.image.files[0].digest).unlink()  # that one lies beside the manifest
    for name in ("images", ".sparklock/store/tmp"):
        shutil.rmtree(project.folder / name)
    before = sorted(project.folder.rglob("*"))

    report = project.check()

    assert "not compared" not in report.text()
    assert report.lacking is None
    assert sorted(project.folder.rglob("*")) == before


def test_checking_says_when_an_input_in_the_store_is_damaged(project: Project) -> None:
    pick = project.lock().lock.image.picks[0]
    path = project.store.path(pick.digest)
    path.chmod(0o644)
    path.write_bytes(b"other bytes")

    assert "the store lacks 1 of its 4 inputs" in project.check().text()


@pytest.mark.parametrize("call", [Project.check, lambda project: project.build(locked=True)])
def test_a_missing_lock_is_told_and_not_written(
    project: Project, call: Callable[[Project], object]
) -> None:
    with pytest.raises(LockNotFoundError) as caught:
        call(project)

    assert caught.value.exit_code == 3
    assert "inv lock" in str(caught.value)
    assert not project.lock_file.exists()


def test_a_build_writes_a_missing_lock_and_says_so(project: Project) -> None:
    built = project.build()

    assert built.lock_written
    assert f"{project.lock_file} was written" in built.text()
    assert project.read_lock() == built.lock
    assert not project.build().lock_written


def everything(project: Project) -> None:
    project.write("files/template.jinja", "x")
    project.write("model/a", "")
    project.edit("= 256", "= 1")


STALE: dict[str, tuple[Callable[[Project], object], list[str]]] = {
    "an argument": (lambda p: p.edit("= 256", "= 512"), ["the manifest"]),
    "a node": (lambda p: p.edit("198.18.0.2", "198.18.0.3"), ["the manifest"]),
    "a graft": (lambda p: p.edit("models/new.py", "models/newer.py"), ["the manifest"]),
    "a pin": (lambda p: p.base(tar_of(file("x"))), ["the manifest"]),
    "the mode of an own file": (
        lambda p: p.edit('/template.jinja"\n\n', '/template.jinja"\nmode = "0755"\n\n'),
        ["the manifest"],
    ),
    "an own file": (lambda p: p.write("files/template.jinja", "x"), ["files/template.jinja"]),
    "a model file": (lambda p: p.write("model/weights.bin", "WEIGHTS"), ["model/weights.bin"]),
    "one model file more": (lambda p: p.write("model/a/b.bin", ""), ["model/a/b.bin"]),
    "one model file less": (
        lambda p: (p.folder / "model/weights.bin").unlink(),
        ["model/weights.bin"],
    ),
    "the checkpoint's architecture": (
        lambda p: p.write("model/config.json", '{"architectures": ["Old"]}'),
        ["model/config.json"],
    ),
    "everything": (
        everything,
        ["files/template.jinja", "model/a", "the manifest"],
    ),
}


@pytest.mark.parametrize(("edit", "paths"), STALE.values(), ids=STALE)
def test_the_lock_is_stale_after_a_change_of(
    project: Project, edit: Callable[[Project], object], paths: list[str]
) -> None:
    project.lock()
    before = project.lock_file.read_bytes()
    edit(project)

    for call in (project.check, lambda: project.build(locked=True)):
        with pytest.raises(StaleLockError) as caught:
            call()
        assert changed_paths(caught.value) == paths
        assert caught.value.exit_code == 3
        for message in caught.value.messages:
            assert message.place == str(project.lock_file)
            assert "(locked)" in message.expected
            assert message.found
            assert message.remedy.startswith("inv lock")
    assert project.lock_file.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[vllm]\n", "# a remark\n[vllm]\n\n"),
        ("tensor_parallel = 2", "'tensor_parallel' = 0x2"),
        ('["mlx5_0"] }\n\n[[nodes]]', '[\n  "mlx5_0", # the first\n] }\n\n[[nodes]]'),
        ('name = "small"\n', 'name = "small"\r\n'),
        ("tensor_parallel = 2\n", "tensor_parallel = 2\nport = 8000\n"),
    ],
)
def test_another_spelling_of_the_manifest_makes_no_lock_stale(
    project: Project, old: str, new: str
) -> None:
    project.lock()
    project.edit(old, new)

    assert not project.check().written


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[serve]", '[container]\nenv = { PATH = "/nowhere" }\n\n[serve]'),
        ('ssh = "b"\n', 'ssh = "b"\nenv = { PATH = "/nowhere" }\n'),
    ],
    ids=["of all containers", "of one node's"],
)
def test_programs_are_looked_for_on_the_path(project: Project, old: str, new: str) -> None:
    project.edit(old, new)

    with pytest.raises(ClosureError, match=r"vllm in a folder on PATH: /nowhere"):
        project.lock()


def test_arguments_and_nodes_leave_the_image_as_it_is(project: Project) -> None:
    before = project.lock().lock
    project.edit("= 256", "= 512")
    project.edit('name = "b"', 'name = "c"')
    project.write("model/weights.bin", "WEIGHTS")

    after = project.lock().lock

    assert after != before
    assert (after.inputs_digest, after.outputs) == (before.inputs_digest, before.outputs)


def test_a_donor_that_moves_without_the_picked_files_leaves_the_image_as_it_is(
    project: Project,
) -> None:
    before = project.lock().lock
    project.donor(tar_of(*DONOR, file("etc/build", b"tuesday")))

    after = project.lock().lock

    assert after.image.donors != before.image.donors
    assert after.image.picks[0].layer != before.image.picks[0].layer
    assert after.outputs == before.outputs


def test_equal_files_make_one_image_whoever_gave_them(project: Project) -> None:
    before = project.lock().lock
    project.write("files/new.py", "class New: ...\n")
    text = project.file.read_text()
    start, end = text.index("[image.donors"), text.index("[[image.register]]")
    target = before.image.picks[0].target
    own = f'[[image.file]]\nsource = "files/new.py"\ntarget = "{target}"\n\n'
    project.file.write_text(text[:start] + own + text[end:])

    after = project.lock().lock

    assert after.image.picks == ()
    assert (after.inputs_digest, after.outputs) == (before.inputs_digest, before.outputs)


def test_other_bytes_of_a_picked_file_make_another_image(project: Project) -> None:
    before = project.lock().lock
    project.donor(tar_of(*DONOR, file(f"{VENV}/{MODELS}/new.py", b"class New: pass\n")))

    assert project.lock().lock.outputs != before.outputs


def test_a_failed_lock_leaves_the_old_one(project: Project) -> None:
    project.lock()
    before = project.lock_file.read_bytes()
    project.edit("models/new.py", "models/absent.py")

    with pytest.raises(BuildError):
        project.lock()
    with pytest.raises(BuildError):
        project.build()

    assert project.lock_file.read_bytes() == before


@pytest.mark.parametrize("call", [Project.lock, Project.build, Project.check])
def test_the_lock_of_a_newer_sparklock_is_refused_and_kept(
    project: Project, call: Callable[[Project], object]
) -> None:
    project.lock()
    newer = project.lock_file.read_text().replace('"lock_version": 1', '"lock_version": 2')
    project.lock_file.write_text(newer)

    with pytest.raises(LockVersionError) as caught:
        call(project)

    assert "update sparklock" in str(caught.value)
    assert project.lock_file.read_text() == newer


@pytest.mark.parametrize(
    "text", ["", "{}", "no json", "<<<<<<< ours\n{}\n", '{"lock_version": 0}', "\0\xff"]
)
def test_a_lock_that_nobody_can_read_is_replaced(project: Project, text: str) -> None:
    project.lock()
    good = project.lock_file.read_bytes()
    project.lock_file.write_bytes(text.encode("latin-1"))

    report = project.lock()

    assert report.new
    assert project.lock_file.read_bytes() == good


def test_a_merge_conflict_is_no_lock_until_it_is_locked_again(project: Project) -> None:
    project.lock()
    lines = project.lock_file.read_text().splitlines(keepends=True)
    lines[8:9] = ["<<<<<<< ours\n", lines[8], "=======\n", lines[8], ">>>>>>> theirs\n"]
    project.lock_file.write_text("".join(lines))

    with pytest.raises(LockConflictError):
        project.build(locked=True)
    project.build()
    assert not project.check().written


def test_a_lock_of_other_formats_is_refused_until_it_is_locked_again(project: Project) -> None:
    project.lock()
    rewritten(project, lambda lock: lock["formats"].update(layer=7))

    for call in (project.check, lambda: project.build(locked=True)):
        with pytest.raises(OtherFormatsError) as caught:
            call()
        assert "layer 7, config" in str(caught.value)
        assert caught.value.exit_code == 3
    assert [change.path for change in project.lock().changes] == ["formats.layer"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no json", "Expecting value"),
        ("[]", "TypeError"),
        ("{}", "KeyError"),
        ('{"architectures": []}', "architectures = []"),
        ('{"architectures": "New"}', "architectures = 'New'"),
        ('{"architectures": [1]}', "architectures = [1]"),
        ("[" * 100_000, "RecursionError"),
        ("\0", "JSONDecodeError"),
    ],
)
def test_a_checkpoint_that_states_no_architecture_is_told(
    project: Project, text: str, found: str
) -> None:
    project.write("model/config.json", text)

    with pytest.raises(CheckpointConfigError) as caught:
        project.lock()
    assert caught.value.path == str(project.folder / "model" / "config.json")
    assert found in str(caught.value)
    assert caught.value.exit_code == 4


def test_a_checkpoint_without_config_is_told(project: Project) -> None:
    (project.folder / "model" / "config.json").unlink()

    with pytest.raises(CheckpointConfigError):
        project.lock()


def test_a_missing_own_file_is_a_problem_of_the_manifest(project: Project) -> None:
    project.lock()
    (project.folder / "files" / "template.jinja").unlink()

    for call in (project.lock, project.check, project.build):
        with pytest.raises(ManifestError) as caught:
            call()
        assert "files/template.jinja" in str(caught.value)


def test_a_lock_that_cannot_be_written_is_told(project: Project) -> None:
    project.lock_file.mkdir()

    with pytest.raises(LockNotWritableError):
        project.lock()
