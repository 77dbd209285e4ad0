"""The embedded default, vendored: built again when the registry of base and donor is gone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from builder import pipeline, vendoring
from builder.errors import BuildError
from builder.oci.model import Platform
from builder.progress import Silent
from tests.debian_registry import debian_registry
from tests.integration.sources.conftest import lab_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.sources.conftest import LabProject

AMD64 = Platform("linux", "amd64")


@pytest.fixture
def alone(project: LabProject, tmp_path: Path) -> LabProject:
    """What is committed; the store is empty, and the registry has ended."""
    with debian_registry(tmp_path / "registry") as registry:
        for name in ("base", "donor"):
            source, image = lab_image(name, AMD64)
            registry.push(image, source.open_blob, repository=f"team/{name}")
            project.change(f"oci:examples/lab/images/{name}", f"{registry.host}/team/{name}:v1")
        vendoring.vendor(project.file, "vendor", Silent())
    shutil.rmtree(project.folder / ".sparklock")
    return project


def test_the_image_is_built_and_is_the_same(alone: LabProject) -> None:
    assert pipeline.check_lock(alone.file).lacking is None

    built = pipeline.build(alone.file, Silent(), locked=True)

    assert built.lock.outputs == alone.committed().outputs
    assert not built.lock_written


def test_only_the_layers_of_the_base_are_asked_of_its_registry(
    alone: LabProject, tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match="team/base"):
        pipeline.build(alone.file, Silent(), locked=True, output=tmp_path / "image")
