from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.collecting import collect
from builder.digest import digest_bytes, hex_of
from builder.edges.daemon_kept import FOLDER, KeptDescriptor, KeptImage, KeptLayer
from builder.edges.files import write_lock
from builder.errors import LockError
from builder.lock_errors import LockNotFoundError
from builder.oci.model import OCI_LAYER_TAR, OCI_MANIFEST
from builder.read.errors import ManifestNotFoundError
from tests.repository import files

if TYPE_CHECKING:
    from builder.digest import Digest
    from tests.project import Project


def change(project: Project) -> None:
    project.write("files/template.jinja", "another text\n")
    project.build()


def blobs(project: Project) -> dict[str, bytes]:
    return files(project.folder / ".sparklock" / "store" / "sha256")


def test_what_the_lock_needs_stays_and_builds_without_any_source(project: Project) -> None:
    outputs = project.build().lock.outputs
    change(project)
    project.write("files/template.jinja", "{{ messages }}\n")
    project.build()

    collect(project.file)

    project.remove("images")
    assert project.build(locked=True).lock.outputs == outputs
    assert project.check().lacking is None


def test_what_no_lock_needs_goes_and_is_counted(project: Project) -> None:
    project.build()
    old = project.read_lock()
    change(project)
    before = blobs(project)

    report = collect(project.file)

    after = blobs(project)
    gone = before.keys() - after.keys()
    for digest in (
        old.outputs.manifest_digest,
        old.outputs.layers[0].digest,
        old.image.files[0].digest,
    ):
        assert any(name.endswith(digest.removeprefix("sha256:")) for name in gone)
    assert report.removed.files == len(gone)
    assert report.removed.size_bytes == sum(len(before[name]) for name in gone)
    assert report.kept.files == len(after)
    assert collect(project.file).removed.files == 0


def test_a_dry_run_says_the_same_and_removes_nothing(project: Project) -> None:
    project.build()
    change(project)
    before = blobs(project)

    told = collect(project.file, dry_run=True)

    assert blobs(project) == before
    assert "would go" in told.text()
    done = collect(project.file)
    assert (done.removed, done.kept) == (told.removed, told.kept)
    assert told.as_json() != done.as_json()
    assert json.loads(json.dumps(done.as_json()))["store"]["removed"] == told.removed.as_json()


def test_another_lock_keeps_its_blobs_too(project: Project) -> None:
    project.build()
    old = project.folder / "old.json"
    shutil.copy(project.lock_file, old)
    change(project)
    before = blobs(project)

    assert collect(project.file, keep=[old]).removed.size_bytes < sum(map(len, before.values()))

    kept = project.read_lock().image.files[0].digest
    assert project.store.is_sound(kept)
    shutil.copy(old, project.lock_file)
    project.write("files/template.jinja", "{{ messages }}\n")
    project.remove("images")
    project.build(locked=True)


@pytest.mark.parametrize(("text", "error"), [(None, LockNotFoundError), ("{}", LockError)])
def test_without_a_lock_that_can_be_read_nothing_goes(
    project: Project, text: str | None, error: type[Exception]
) -> None:
    project.build()
    project.lock_file.unlink() if text is None else project.lock_file.write_text(text)
    before = blobs(project)

    with pytest.raises(error):
        collect(project.file)
    with pytest.raises(LockError):
        collect(project.file, keep=[project.folder / "absent.json"])
    assert blobs(project) == before


def test_what_is_not_a_blob_is_left_alone(project: Project) -> None:
    project.build()
    store = project.folder / ".sparklock" / "store"
    (store / "sha256" / "README").write_text("mine")
    (store / "sha256" / "ab").mkdir(exist_ok=True)
    (store / "sha256" / "ab" / "notes").write_text("mine")
    (store / "other").mkdir()

    collect(project.file, everything=True)

    assert (store / "sha256" / "README").exists()
    assert (store / "sha256" / "ab" / "notes").exists()
    assert (store / "other").exists()


def test_what_killed_runs_left_goes_and_what_others_wrote_stays(project: Project) -> None:
    project.build()
    unfinished = project.folder / ".sparklock" / "store" / "tmp"
    (unfinished / "tmpabc").write_bytes(b"half a blob")
    (project.folder / ".lockfile.json.writing-abc").write_bytes(b"half")
    (project.folder / ".lockfile.json.swp").write_bytes(b"an editor's")

    report = collect(project.file)

    assert (report.unfinished.files, report.unfinished.size_bytes) == (2, 15)
    assert list(unfinished.iterdir()) == []
    names = {path.name for path in project.folder.glob(".lockfile*")}
    assert names == {".lockfile.json.swp"}


def test_a_store_that_is_not_there_has_nothing_to_remove(project: Project) -> None:
    project.lock()
    project.remove(".sparklock")

    report = collect(project.file)

    assert (report.kept.files, report.removed.files) == (0, 0)
    assert not (project.folder / ".sparklock").exists()


def test_every_digest_of_the_lock_is_kept_but_where_picks_came_from(project: Project) -> None:
    project.build()
    lock = project.read_lock()
    extra = project.store.put([b"what a later lock may name"])
    layer = project.store.put([b"a donor's layer, as if it had been fetched"])
    picks = tuple(pick.model_copy(update={"layer": layer}) for pick in lock.image.picks)
    donors = tuple(item.model_copy(update={"index_digest": extra}) for item in lock.image.donors)
    image = lock.image.model_copy(update={"picks": picks, "donors": donors})
    write_lock(project.lock_file, lock.model_copy(update={"image": image}))

    collect(project.file)

    assert project.store.has(extra)
    assert not project.store.has(layer)
    assert digest_bytes(b"what a later lock may name") == extra


def test_what_is_known_of_an_engine_s_image_stays_with_the_image(project: Project) -> None:
    project.build()
    donor = project.read_lock().image.donors[0].manifest_digest
    stays, goes = (known_image(project, name) for name in (donor, digest_bytes(b"another image")))

    collect(project.file)

    assert project.store.has(stays)
    assert not project.store.has(goes)


def known_image(project: Project, digest: Digest) -> Digest:
    """An image of an engine that the store knows, and the listing of its layer."""
    listing = project.store.put([f"a listing of {digest}".encode()])
    layer = KeptLayer(
        stored=KeptDescriptor(media_type=OCI_LAYER_TAR, digest=digest, size_bytes=1),
        diff_id=digest,
        listing=listing,
    )
    root = KeptDescriptor(media_type=OCI_MANIFEST, digest=digest, size_bytes=1)
    image = KeptImage(id=digest, root=root, documents=(), layers=(layer,))
    folder = project.store.root / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / f"{hex_of(digest)}.json").write_text(image.model_dump_json())
    return listing


@pytest.mark.parametrize("name", ["", ".", "nothing.toml", "images"])
def test_only_the_lock_of_a_manifest_that_is_there_counts(
    project: Project, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.lock()
    monkeypatch.chdir(project.folder)
    before = files(project.folder)

    with pytest.raises(ManifestNotFoundError):
        collect(Path(name))
    assert files(project.folder) == before
