"""A tag of a real registry moves: what is pinned stays, and moves only when it is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder import pinning, updating
from builder.digest import digest_bytes
from builder.edges.registry.errors import OfflineError
from builder.oci.model import OCI_INDEX
from builder.progress import Silent
from tests.project import BASE, BASE_CONFIG, Project
from tests.unit.oci.archives import Published, file, tar_of

if TYPE_CHECKING:
    from pathlib import Path

    from builder.digest import Digest
    from builder.oci.model import Image
    from tests.debian_registry import DebianRegistry

TAG = "v1"


class Team:
    """A repository whose tag somebody else moves."""

    def __init__(self, registry: DebianRegistry, repository: str) -> None:
        self.registry = registry
        self.repository = repository
        self.source = f"{registry.host}/{repository}:{TAG}"

    def release(self, *tars: bytes) -> Image:
        """The tag names a new image."""
        published = Published()
        image = published.image(*tars, config=BASE_CONFIG)
        self.registry.push(image, published.source.open_blob, repository=self.repository, tag=TAG)
        return image

    def release_index(self, *tars: bytes) -> tuple[Digest, Image]:
        """The tag names an index with a new image, and an attestation as BuildKit adds one."""
        image = self.release(*tars)
        published = Published()
        attestation = image.manifest.descriptor
        index = published.index(
            (image.manifest.descriptor, "linux/amd64"), (attestation, "unknown/unknown")
        )
        raw = published.source.blobs[index.digest]
        self.registry.name(TAG, raw, OCI_INDEX, repository=self.repository)
        return digest_bytes(raw), image


@pytest.fixture
def team(registry: DebianRegistry, tmp_path: Path) -> Team:
    return Team(registry, f"{tmp_path.name.replace('_', '-').lower()}/base")


@pytest.fixture
def project(tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The small project, locked, its base behind the tag."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "nobody"))
    monkeypatch.delenv("SPARKLOCK_OFFLINE", raising=False)
    found = Project(tmp_path / "project")
    team.release(tar_of(*BASE))
    found.edit("oci:images/base", team.source)
    found.lock()
    return found


def test_a_tag_that_moved_changes_nothing_until_it_is_told_to(project: Project, team: Team) -> None:
    before = project.file.read_text(), project.lock_file.read_text()
    image = team.release(tar_of(*BASE), tar_of(file("new")))

    assert not project.lock().written
    assert not project.check().written

    report = updating.update(project.file, "base", Silent())

    new = image.manifest.descriptor.digest
    assert report.pin.found == new
    assert project.read_lock().image.base.manifest_digest == new
    assert project.file.read_text() == before[0].replace(report.pin.before or "", new)
    assert project.lock_file.read_text() != before[1]
    project.build(locked=True)
    assert "is current" in updating.update(project.file, "base", Silent()).text()


def test_an_index_is_pinned_by_its_own_digest(project: Project, team: Team) -> None:
    index, image = team.release_index(tar_of(*BASE), tar_of(file("newer")))

    report = pinning.pin(project.file, "base", Silent())

    assert f'digest = "{index}"' in project.file.read_text()
    assert report.pins[0].kind == "index"
    base = project.lock().lock.image.base
    assert (base.index_digest, base.manifest_digest) == (index, image.manifest.descriptor.digest)


def test_the_manifest_that_an_index_leads_to_pins_the_same_image(
    project: Project, team: Team
) -> None:
    image = team.release(tar_of(*BASE), tar_of(file("newest")))
    pinning.pin(project.file, "base", Silent())
    before = project.file.read_bytes()
    team.release_index(tar_of(*BASE), tar_of(file("newest")))

    report = pinning.pin(project.file, "base", Silent())

    assert not report.written
    assert project.file.read_bytes() == before
    assert report.pins[0].before == image.manifest.descriptor.digest


def test_offline_nothing_is_asked_and_nothing_written(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKLOCK_OFFLINE", "1")
    before = project.file.read_bytes()
    with pytest.raises(OfflineError):
        updating.update(project.file, "base", Silent())
    assert project.file.read_bytes() == before
