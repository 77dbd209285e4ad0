"""Diffs and tables in one image: what is written, what the lock says, what makes it stale."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.errors import BuildError
from builder.graft.acceptance import ClosureError
from builder.graft.patch_errors import (
    DiffOutsideError,
    PatchMismatchError,
    PatchTargetExistsError,
    PatchTargetMissingError,
)
from builder.graft.table_errors import MissingModuleError
from builder.oci.image_errors import DuplicateEntryError
from builder.pipeline_errors import OutputsDifferError, StaleLockError
from tests.project import MODELS, REGISTRY, SITE, Project, changed_paths, rewritten

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "a/vllm/model_executor/models"
OLD = f"{SITE}/{MODELS}/old.py"
NEW = f"{SITE}/{MODELS}/new.py"


def diff_of(name: str, before: str, after: str, *, start: int = 1) -> str:
    """A diff of whole lines, without context."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    heads = (f"a/{name}" if old else "/dev/null", f"b/{name}" if new else "/dev/null")
    ranges = (f"{start if old else 0},{len(old)}", f"{start if new else 0},{len(new)}")
    lines = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    return f"--- {heads[0]}\n+++ {heads[1]}\n@@ -{ranges[0]} +{ranges[1]} @@\n" + "".join(lines)


CHANGED = diff_of(f"{MODELS}/old.py", "class Old: ...\n", "class Old:\n    size = 1\n")
REGISTERED = diff_of(f"{MODELS}/registry.py", "_MODELS = {\n", "# ours\n_MODELS = {\n")


def patched(project: Project, *diffs: str, start: str = 'package = "vllm"') -> Project:
    """The project with diffs in its manifest, in this order."""
    for number, text in enumerate(diffs):
        project.write(f"patches/{number}.diff", text)
    sections = "".join(
        f'[[image.patch]]\ndiff = "patches/{number}.diff"\n{start}\n\n'
        for number in range(len(diffs))
    )
    return project.edit("[[image.file]]\n", f"{sections}[[image.file]]\n")


def test_a_file_of_the_base_is_patched_and_the_lock_says_how(project: Project) -> None:
    built = patched(project, CHANGED).build()

    assert project.content(built, f"/{OLD}") == b"class Old:\n    size = 1\n"
    (step,) = built.lock.image.patches
    assert (step.diff, step.path, step.target) == (
        "patches/0.diff",
        f"{PACKAGE}/old.py",
        f"/{OLD}",
    )
    assert step.digest == digest_bytes(CHANGED.encode())
    assert step.before == digest_bytes(b"class Old: ...\n")
    assert step.after == digest_bytes(b"class Old:\n    size = 1\n")
    assert project.build(locked=True).lock == built.lock


def test_stale_byte_code_of_a_patched_file_is_hidden(project: Project) -> None:
    project.edit('table = "_MODELS"', 'table = "_MORE"')
    hidden = patched(project, REGISTERED).lock().lock.image.whiteouts

    assert hidden == (f"/{SITE}/{MODELS}/__pycache__/registry.cpython-312.pyc",)


def test_a_diff_comes_before_a_table_and_both_are_one_chain(project: Project) -> None:
    built = patched(project, REGISTERED).build()

    text = project.content(built, f"/{REGISTRY}")
    assert text.startswith(b'# ours\n_MODELS = {\n    "Old": ("old", "Old"),\n    "New":')
    (diff,), (table,) = built.lock.image.patches, built.lock.image.tables
    assert diff.after == table.before
    assert table.after == digest_bytes(text)
    assert project.build(locked=True).image == built.image


def test_a_second_diff_is_applied_to_what_the_first_one_made(project: Project) -> None:
    again = diff_of(f"{MODELS}/old.py", "    size = 1\n", "    size = 2\n", start=2)
    built = patched(project, CHANGED, again).build()

    assert project.content(built, f"/{OLD}") == b"class Old:\n    size = 2\n"
    first, second = built.lock.image.patches
    assert first.after == second.before


def test_a_grafted_file_is_patched_as_the_donor_has_it(project: Project) -> None:
    change = diff_of(f"{MODELS}/new.py", "class New: ...\n", "class New:\n    size = 1\n")
    built = patched(project, change).build()

    assert project.content(built, f"/{NEW}") == b"class New:\n    size = 1\n"
    assert built.lock.image.patches[0].before == built.lock.image.picks[0].digest
    assert project.build(locked=True).lock == built.lock


def test_files_come_and_go_with_a_diff(project: Project) -> None:
    new = diff_of("vllm/extra/__init__.py", "", "X = 1\n")
    deleted = diff_of(f"{MODELS}/old.py", "class Old: ...\n", "")
    project.edit('table = "_MODELS"', 'table = "_MORE"')
    built = patched(project, new + deleted).build()

    tree = project.tree(built)
    assert project.content(built, f"/{SITE}/vllm/extra/__init__.py") == b"X = 1\n"
    assert OLD not in tree.entries
    assert f"/{OLD}" in built.lock.image.whiteouts
    assert [step.after is None for step in built.lock.image.patches] == [False, True]
    assert project.build(locked=True).lock == built.lock


def test_a_file_of_ours_in_the_place_of_one_that_a_diff_deletes_is_refused(
    project: Project,
) -> None:
    patched(project, diff_of(f"{MODELS}/old.py", "class Old: ...\n", ""))
    ours = f'[[image.file]]\nsource = "files/old.py"\ntarget = "/{OLD}"\n\n[vllm]'
    project.edit("[vllm]", ours)
    project.write("files/old.py", "class Old: ...\n")

    with pytest.raises(DuplicateEntryError, match=OLD):
        project.lock()


def test_a_file_outside_of_packages_is_patched_below_a_root_and_keeps_its_mode(
    project: Project,
) -> None:
    change = diff_of("run.sh", 'exec "$@"\n', 'echo up\nexec "$@"\n', start=2)
    built = patched(project, change, start='root = "/apps"').build()

    assert project.content(built, "/apps/run.sh") == b'#!/bin/sh\necho up\nexec "$@"\n'
    assert project.tree(built).entries["apps/run.sh"].mode == 0o755
    assert built.lock.image.patches[0].mode == "0755"


def test_a_diff_can_change_the_mode_alone(project: Project) -> None:
    name = f"{MODELS}/old.py"
    git = f"diff --git a/{name} b/{name}\nold mode 100644\nnew mode 100755\n"
    built = patched(project, git).build()

    assert project.tree(built).entries[OLD].mode == 0o755
    assert project.content(built, f"/{OLD}") == b"class Old: ...\n"
    assert project.build(locked=True).lock == built.lock


def test_equal_content_is_one_image_whoever_gave_it(project: Project) -> None:
    project.write("files/old.py", "class Old:\n    size = 1\n")
    by_file = f'[[image.file]]\nsource = "files/old.py"\ntarget = "/{OLD}"\n\n[vllm]'
    project.edit("[vllm]", by_file)
    first = project.lock().lock
    project.edit(by_file, "[vllm]")
    second = patched(project, CHANGED).lock().lock

    assert second.image.patches
    assert (first.inputs_digest, first.outputs) == (second.inputs_digest, second.outputs)


# --- staleness and the store --------------------------------------------------------------------


def test_a_diff_that_changed_makes_the_lock_stale(project: Project) -> None:
    patched(project, CHANGED).lock()
    project.write("patches/0.diff", CHANGED.replace("size = 1", "size = 2"))

    with pytest.raises(StaleLockError) as caught:
        project.check()
    assert changed_paths(caught.value) == ["patches/0.diff"]
    assert b"size = 2" in project.content(project.build(), f"/{OLD}")


def test_checking_and_building_need_no_source(project: Project) -> None:
    patched(project, CHANGED, REGISTERED).lock()
    shutil.rmtree(project.folder / "images")

    assert project.check().lacking is None
    project.build(locked=True)


def test_a_lost_file_before_its_diff_is_read_again(project: Project) -> None:
    step = patched(project, CHANGED).build().lock.image.patches[0]
    assert step.before is not None
    project.store.path(step.before).unlink()

    assert b"size = 1" in project.content(project.build(locked=True), f"/{OLD}")


@pytest.mark.parametrize(
    "change",
    [
        lambda step: step.update(after=digest_bytes(b"other")),
        lambda step: step.update(before=digest_bytes(b"other")),
        lambda step: step.update(before=None),
        lambda step: step.update(after=None),
        lambda step: step.update(path=f"{PACKAGE}/other.py"),
        lambda step: step.update(mode="0755"),
        lambda step: step.update(target=f"/{SITE}/{MODELS}/other.py"),
        lambda step: step.update(diff="patches/other.diff"),
        lambda step: step.update(digest=digest_bytes(b"other")),
    ],
)
def test_no_value_of_a_patch_can_be_changed_by_hand_and_built(
    project: Project, change: Callable[[dict[str, object]], None]
) -> None:
    patched(project, CHANGED).build()
    rewritten(project, lambda lock: change(lock["image"]["patches"][0]))

    with pytest.raises((OutputsDifferError, StaleLockError, BuildError)):
        project.build(locked=True)


# --- what is refused ----------------------------------------------------------------------------


def test_a_diff_that_does_not_fit_is_refused_before_anything_is_written(project: Project) -> None:
    patched(project, CHANGED.replace("-class Old", "-class Older"))

    with pytest.raises(PatchMismatchError) as caught:
        project.lock()
    (message,) = caught.value.messages
    assert message.place == "patches/0.diff:4"
    assert f"image: /{OLD}" in message.what
    assert not project.lock_file.exists()


@pytest.mark.parametrize(
    ("diff", "error"),
    [
        (CHANGED.replace("old.py", "olds.py"), PatchTargetMissingError),
        (CHANGED.replace("vllm/", "tests/"), DiffOutsideError),
        (diff_of(f"{MODELS}/old.py", "", "x\n"), PatchTargetExistsError),
        (diff_of(f"{MODELS}/registry.py", "_MODELS = {\n", ""), BuildError),
        (
            diff_of(f"{MODELS}/old.py", "class Old: ...\n", "from vllm.nothing import X\n"),
            ClosureError,
        ),
    ],
)
def test_what_does_not_fit_the_image_is_refused(
    project: Project, diff: str, error: type[BuildError]
) -> None:
    with pytest.raises(error):
        patched(project, diff).lock()


def test_a_table_in_a_deleted_file_is_refused(project: Project) -> None:
    text = project.content(project.build(), f"/{REGISTRY}").decode()
    text = text.replace('    "New": ("new", "New"),\n', "")
    patched(project, diff_of(f"{MODELS}/registry.py", text, ""))

    with pytest.raises(MissingModuleError) as caught:
        project.lock()
    assert caught.value.found == "a file that a diff deletes"


def test_a_file_that_is_patched_and_replaced_is_refused(project: Project) -> None:
    project.write("files/old.py", "class Old: ...\n")
    patched(project, CHANGED)
    project.edit("[vllm]", f'[[image.file]]\nsource = "files/old.py"\ntarget = "/{OLD}"\n\n[vllm]')

    with pytest.raises(DuplicateEntryError):
        project.lock()
