"""What was fetched from registries: `inv gc` keeps what builds and deployments need of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.collecting import collect
from builder.edges.registry.errors import OfflineError
from builder.edges.store import BlobStore
from builder.oci.model import Platform
from builder.progress import Silent
from tests.integration.sources.conftest import lab_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.debian_registry import DebianRegistry
    from tests.integration.sources.conftest import LabProject

AMD64 = Platform("linux", "amd64")


@pytest.fixture
def filled(project: LabProject, registry: DebianRegistry) -> LabProject:
    for name in ("base", "donor"):
        source, image = lab_image(name, AMD64)
        registry.push(image, source.open_blob, repository=f"collecting/{name}")
        project.change(f"oci:examples/lab/images/{name}", f"{registry.host}/collecting/{name}:v1")
    project.lock()
    return project


def layers_here(project: LabProject, name: str) -> list[bool]:
    store = BlobStore(project.folder / pipeline.STORE)
    return [store.has(layer.descriptor.digest) for layer in lab_image(name, AMD64)[1].layers]


def size_bytes(name: str) -> int:
    return sum(layer.descriptor.size_bytes for layer in lab_image(name, AMD64)[1].layers)


def test_the_base_s_layers_stay_and_the_donor_s_go(
    filled: LabProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(layers_here(filled, "base") + layers_here(filled, "donor"))

    report = collect(filled.file)

    assert all(layers_here(filled, "base"))
    shared = [layer.descriptor.digest for layer in lab_image("base", AMD64)[1].layers]
    for layer in lab_image("donor", AMD64)[1].layers:
        here = BlobStore(filled.folder / pipeline.STORE).has(layer.descriptor.digest)
        assert here == (layer.descriptor.digest in shared)
    (donor,) = report.again
    assert donor == "donors.tiny"
    assert 0 < report.again[donor] <= size_bytes("donor")
    assert "the next `inv lock`" in report.text()
    monkeypatch.setenv("SPARKLOCK_OFFLINE", "1")
    pipeline.build(filled.file, Silent(), locked=True, output=tmp_path / "image.tar")


def test_with_all_the_base_s_layers_go_and_are_fetched_when_needed(
    filled: LabProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = collect(filled.file, everything=True)

    assert not any(layers_here(filled, "base"))
    assert report.again["the base"] == size_bytes("base")
    with monkeypatch.context() as offline:
        offline.setenv("SPARKLOCK_OFFLINE", "1")
        pipeline.build(filled.file, Silent(), locked=True)
        with pytest.raises(OfflineError):
            pipeline.build(filled.file, Silent(), locked=True, output=tmp_path / "image.tar")
    pipeline.build(filled.file, Silent(), locked=True, output=tmp_path / "image.tar")
    assert all(layers_here(filled, "base"))
