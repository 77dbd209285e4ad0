"""Moving one input: pin and lock follow it together, and nothing else moves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builder import pinning, pipeline, updating
from builder.digest import digest_bytes
from builder.edges import files
from builder.edges.manifest_errors import ManifestChangedError
from builder.graft.acceptance import ClosureError
from builder.lock_errors import LockNotFoundError, LockNotWritableError
from builder.options import OptionError, only_one
from builder.pipeline_errors import OtherInputMovedError, StaleLockError
from builder.progress import Silent
from tests.project import BASE, DONOR, MODELS, VENV, Project
from tests.unit.oci.archives import file, tar_of

if TYPE_CHECKING:
    from builder.lock import Lock
    from builder.updating import UpdateReport

NEW_MODULE = file(f"{VENV}/{MODELS}/new.py", b"class New: ...  # newer\n")


def update(project: Project, name: str = "base") -> UpdateReport:
    return updating.update(project.file, name, Silent())


def moved(project: Project, name: str, *tars: bytes) -> Project:
    """The source has another image than manifest and lock say."""
    text = project.file.read_text()
    getattr(project, name)(*tars)
    project.file.write_text(text)
    return project


@pytest.fixture
def newer_base(project: Project) -> Project:
    project.lock()
    return moved(project, "base", tar_of(*BASE), tar_of(file("new")))


def written(project: Project) -> tuple[bytes, bytes]:
    return project.file.read_bytes(), project.lock_file.read_bytes()


def test_a_newer_base_moves_pin_and_lock_and_shows_every_difference(newer_base: Project) -> None:
    before = newer_base.read_lock()

    report = update(newer_base)

    after = newer_base.read_lock()
    new = after.image.base.manifest_digest
    assert new != before.image.base.manifest_digest
    assert f'digest = "{new}"' in newer_base.file.read_text()
    assert after.image.picks == before.image.picks
    assert after.image.donors == before.image.donors
    assert f"image.base.manifest_digest: {before.image.base.manifest_digest} -> {new}" in (
        report.text()
    )
    newer_base.check()
    assert not newer_base.lock().written


def test_a_newer_donor_moves_what_is_picked_from_it(project: Project) -> None:
    project.lock()
    moved(project, "donor", tar_of(*DONOR, NEW_MODULE))
    before = project.read_lock()

    report = update(project, "donor:tiny")

    after = project.read_lock()
    assert after.image.base == before.image.base
    assert after.image.picks[0].digest != before.image.picks[0].digest
    assert json.loads(json.dumps(report.as_json()))["pin"]["input"] == "donors.tiny"


def test_a_source_that_did_not_move_is_current_and_nothing_is_written(project: Project) -> None:
    project.lock()
    before = written(project)

    report = update(project)

    assert "base: oci:images/base is current: sha256:" in report.text()
    assert "is current: image sha256:" in report.text()
    assert written(project) == before


def test_a_lock_is_needed_that_belongs_to_the_manifest(newer_base: Project) -> None:
    newer_base.edit("max-model-len = 256", "max-model-len = 1")
    before = written(newer_base)
    with pytest.raises(StaleLockError, match="inv lock"):
        update(newer_base)
    assert written(newer_base) == before

    newer_base.lock_file.unlink()
    with pytest.raises(LockNotFoundError):
        update(newer_base)


def test_a_new_base_that_does_not_fit_leaves_both_as_they_were(newer_base: Project) -> None:
    without = [item for item in BASE if not item[0].name.endswith("run.sh")]
    pinned = newer_base.file.read_text()
    pinning.pin(newer_base.file, "base", Silent())  # the helper below changes the present pin
    newer_base.base(tar_of(*without))
    newer_base.file.write_text(pinned)
    before = written(newer_base)

    with pytest.raises(ClosureError):
        update(newer_base)
    assert written(newer_base) == before


def test_an_update_that_would_move_another_input_is_refused(
    newer_base: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pipeline.resolved

    def other(*args: object) -> Lock:
        lock = real(*args)  # type: ignore[arg-type]
        (donor,) = lock.image.donors
        strange = donor.model_copy(update={"config_digest": digest_bytes(b"strange")})
        return lock.model_copy(
            update={"image": lock.image.model_copy(update={"donors": (strange,)})}
        )

    monkeypatch.setattr(updating, "resolved", other)
    before = written(newer_base)

    with pytest.raises(OtherInputMovedError) as caught:
        update(newer_base)

    (message,) = caught.value.messages
    assert caught.value.exit_code == 3
    assert message.what == (
        "moving base would change another input too: donors[tiny].config_digest"
    )
    assert written(newer_base) == before


@pytest.mark.parametrize(
    "error", [LockNotWritableError("lockfile.json", "full"), KeyboardInterrupt()]
)
def test_a_lock_that_cannot_be_written_takes_the_pin_back(
    newer_base: Project, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def refuse(*_: object) -> None:
        assert newer_base.file.read_bytes() != before[0]
        raise error

    before = written(newer_base)
    monkeypatch.setattr(updating, "write_lock", refuse)
    with pytest.raises(type(error)):
        update(newer_base)
    assert written(newer_base) == before


def test_a_lock_that_was_written_when_the_interruption_came_stays_with_its_pin(
    newer_base: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = files.write_lock

    def late(*args: object) -> None:
        real(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(updating, "write_lock", late)
    with pytest.raises(KeyboardInterrupt):
        update(newer_base)
    assert not newer_base.check().written


def test_killed_between_pin_and_lock_the_next_run_says_what_to_do(newer_base: Project) -> None:
    pinning.pin(newer_base.file, "base", Silent())  # all that the killed run had written

    with pytest.raises(StaleLockError) as caught:
        update(newer_base)
    assert {message.remedy for message in caught.value.messages} == {
        (
            "inv lock first; or, if what you edited needs the new base already: inv pin base, "
            "then inv lock"
        )
    }
    newer_base.lock()
    assert "is current" in update(newer_base).text()


def test_a_manifest_that_changed_meanwhile_is_left_alone(
    newer_base: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pipeline.resolved

    def slow(*args: object) -> Lock:
        newer_base.edit('name = "small"', 'name = "mine"')
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(updating, "resolved", slow)
    lock = newer_base.lock_file.read_bytes()
    with pytest.raises(ManifestChangedError):
        update(newer_base)
    assert newer_base.lock_file.read_bytes() == lock
    assert 'name = "mine"' in newer_base.file.read_text()


def test_two_options_that_exclude_each_other_are_refused() -> None:
    only_one({"--check": False, "--update": "base"})
    with pytest.raises(OptionError, match="no --update beside --check"):
        only_one({"--check": True, "--update": "base"})
