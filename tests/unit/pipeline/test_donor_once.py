"""A donor is needed once: what does not concern it is locked again when it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.digest import digest_bytes
from builder.graft.acceptance import ClosureError
from builder.oci.errors import MissingLayoutError
from builder.progress import Silent
from builder.read.errors import UnpinnedSourceError
from tests.project import BASE, DONOR, MODELS, SITE, VENV, Project, rewritten
from tests.unit.oci.archives import file, tar_of

if TYPE_CHECKING:
    from collections.abc import Callable

SPARED = "not read again, since nothing of them moved: donors.tiny"


class Told(Silent):
    """A Progress that remembers what it is told."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def note(self, text: str) -> None:
        self.notes.append(text)


def reads_donor(project: Project) -> bool:
    """Lock; whether the donor was read for it, as the progress tells."""
    told = Told()
    pipeline.lock(project.file, told)
    read = any("read donors.tiny" in stage for stage in told.stages)
    assert read != (SPARED in told.notes)
    return read


@pytest.fixture
def gone(project: Project) -> Project:
    """Locked once; then the donor went away."""
    project.lock()
    return project.remove("images/donor")


UNRELATED: dict[str, Callable[[Project], object]] = {
    "nothing": lambda _: None,
    "an argument": lambda p: p.edit("max-model-len = 256", "max-model-len = 512"),
    "a node's address": lambda p: p.edit("198.18.0.2", "198.18.0.3"),
    "the name": lambda p: p.edit('name = "small"', 'name = "smaller"'),
    "the model's files": lambda p: p.write("model/weights.bin", "other"),
    "a variable": lambda p: p.edit("[vllm]", '[image.config]\nenv = { A = "b" }\n\n[vllm]'),
    "the time of our files": lambda p: p.edit("epoch = 1767225600", "epoch = 1"),
}


@pytest.mark.parametrize("change", UNRELATED.values(), ids=UNRELATED)
def test_what_does_not_concern_the_donor_is_locked_without_it(
    project: Project, change: Callable[[Project], object]
) -> None:
    project.lock()
    change(project)
    project.lock_file.rename(project.folder / "old.json")
    assert reads_donor(project)
    wanted = project.lock_file.read_bytes()
    project.folder.joinpath("old.json").rename(project.lock_file)
    project.remove("images/donor")

    assert not reads_donor(project)
    assert project.lock_file.read_bytes() == wanted
    project.build(locked=True)


def another_pick(project: Project) -> Project:
    """Put other bytes in the place of a picked file, in the lock and in the store."""
    data = b"class New: size = 2\n"
    digest = project.store.put([data])
    rewritten(
        project,
        lambda lock: lock["image"]["picks"][0].update(digest=digest, size_bytes=len(data)),
    )
    return project


RELATED: dict[str, Callable[[Project], object]] = {
    "another file of the donor": lambda p: p.edit(
        '["model_executor/models/new.py"]',
        '["model_executor/models/new.py", "model_executor/models/newer.py"]',
    ),
    "another entry of a table": lambda p: p.edit(
        '["new", "New"] }', '["new", "New"], Old2 = ["old", "Old"] }'
    ),
    "a file of ours more": lambda p: p.edit(
        "[vllm]", '[[image.file]]\nsource = "model/weights.bin"\ntarget = "/a"\n\n[vllm]'
    ),
    "other bytes of a file of ours": lambda p: p.write("files/template.jinja", "other"),
    "another base": lambda p: p.base(tar_of(*BASE), tar_of(file("new"))),
    "a picked file that is not in the store any more": lambda p: p.store.path(
        p.read_lock().image.picks[0].digest
    ).unlink(),
    "no lock": lambda p: p.lock_file.unlink(),
    "a lock of other byte formats": lambda p: rewritten(
        p, lambda lock: lock["formats"].update(layer=9)
    ),
    "a pick by hand": lambda p: rewritten(
        p, lambda lock: lock["image"]["picks"][0].update(source="/other.py")
    ),
    "a pick more by hand": lambda p: rewritten(
        p,
        lambda lock: lock["image"]["picks"].append(
            {**lock["image"]["picks"][0], "target": f"/{SITE}/{MODELS}/more.py"}
        ),
    ),
    "the bytes of a pick by hand": another_pick,
    "a donor's index by hand": lambda p: rewritten(
        p, lambda lock: lock["image"]["donors"][0].update(index_digest=digest_bytes(b"index"))
    ),
    "a donor by hand": lambda p: rewritten(
        p, lambda lock: lock["image"]["donors"][0].update(asked="oci:other")
    ),
}


@pytest.mark.parametrize("change", RELATED.values(), ids=RELATED)
def test_what_may_concern_the_donor_is_not_locked_without_it(
    gone: Project, change: Callable[[Project], object]
) -> None:
    change(gone)
    before = gone.lock_file.read_bytes() if gone.lock_file.exists() else None

    with pytest.raises(MissingLayoutError):
        gone.lock()
    assert (gone.lock_file.read_bytes() if gone.lock_file.exists() else None) == before


@pytest.mark.parametrize("change", RELATED.values(), ids=RELATED)
def test_what_may_concern_the_donor_is_locked_with_it(
    project: Project, change: Callable[[Project], object]
) -> None:
    project.lock()
    change(project)
    assert reads_donor(project)


def test_a_donor_that_is_pinned_no_more_is_told(project: Project) -> None:
    donor = project.lock().lock.image.donors[0]
    project.edit(f'digest = "{donor.manifest_digest}"\n', "")

    with pytest.raises(UnpinnedSourceError, match=donor.manifest_digest):
        project.lock()


def test_a_grafted_program_is_judged_without_the_donor_by_its_first_bytes(project: Project) -> None:
    name = "model_executor/models/new.py"
    donor = [item for item in DONOR if not item[0].name.endswith(name)]
    project.donor(
        tar_of(*donor, file(f"{VENV}/vllm/{name}", b"#!/bin/sh\nclass New: ...\n", mode=0o755))
    )
    project.edit('node_script = "./run.sh"', f'node_script = "/{SITE}/vllm/{name}"')
    project.lock()
    project.edit("max-model-len = 256", "max-model-len = 512").remove("images/donor")

    assert not reads_donor(project)


def test_a_finding_without_the_donor_stands_when_the_donor_is_gone(gone: Project) -> None:
    gone.edit('version = "1.0"', 'version = "2.0"')

    with pytest.raises(ClosureError, match=r"2\.0"):
        gone.lock()


def test_a_finding_has_its_remedy_from_the_donor_where_that_can_be_read(project: Project) -> None:
    project.lock()
    project.write("model/config.json", '{"architectures": ["Newer"]}')
    told = Told()

    with pytest.raises(ClosureError, match="Newer"):
        pipeline.lock(project.file, told)
    assert any("read donors.tiny" in stage for stage in told.stages)
