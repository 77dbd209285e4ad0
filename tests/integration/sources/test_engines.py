"""What `docker save` of a node writes is a source, whichever image store the engine has."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.edges.archive import ArchiveSource
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from deploy.lab.control import LabNode
from tests.integration.sources.conftest import lab_image
from tests.integration.sources.test_archives import skopeo_archive
from tests.validate import validate_image

if TYPE_CHECKING:
    from deploy.lab.lifecycle import LabState
    from tests.integration.sources.conftest import LabProject

pytestmark = pytest.mark.lab

AMD64 = Platform("linux", "amd64")
GRAPH_DRIVER, CONTAINERD = "spark-a", "spark-b"


def saved(lab: LabState, node: str, name: str, folder: Path) -> Path:
    """One of the lab's images as a node's engine saves it; it has it from skopeo."""
    engine = LabNode(lab.spec, node)
    given, taken = (engine.root / "srv" / f"{name}-{side}.tar" for side in ("given", "taken"))
    skopeo_archive("docker-archive", name, folder / given.name)
    shutil.copy(folder / given.name, given)
    engine.run(["docker", "load", "--quiet", "--input", f"/srv/{given.name}"])
    try:
        engine.run(["docker", "save", "--output", f"/srv/{taken.name}", "image:v1"])
    finally:
        engine.run(["docker", "image", "rm", "--force", "image:v1"])
        given.unlink()
    return Path(shutil.move(taken, folder / f"{name}.tar"))


@pytest.mark.parametrize("node", [GRAPH_DRIVER, CONTAINERD])
def test_a_saved_image_has_the_config_and_the_layers_that_the_engine_got(
    mixed_lab: LabState, tmp_path: Path, node: str
) -> None:
    source = ArchiveSource(saved(mixed_lab, node, "donor", tmp_path), spool=tmp_path)

    (root,) = source.roots()
    image = select_manifest(source, None, AMD64).image
    _, original = lab_image("donor", AMD64)
    assert image.config.raw == original.config.raw
    assert [layer.diff_id for layer in image.layers] == [x.diff_id for x in original.layers]
    assert validate_image(source, image.manifest.descriptor) == image
    assert root.digest


def test_what_the_graph_driver_saves_makes_the_image_that_the_layout_makes(
    mixed_lab: LabState, project: LabProject
) -> None:
    for name in ("base", "donor"):
        saved(mixed_lab, GRAPH_DRIVER, name, project.folder)
        project.change(f"oci:examples/lab/images/{name}", f"archive:{name}.tar")

    assert project.lock().outputs == project.committed().outputs
