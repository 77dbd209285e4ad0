"""The embedded default, locked out of archives that other tools wrote."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.edges.layout import LayoutSource
from builder.progress import Silent
from tests.integration.sources.conftest import IMAGES
from tests.validate import validate_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.sources.conftest import LabProject


def skopeo_archive(kind: str, name: str, target: Path, tag: str = "image:v1") -> None:
    """One of the lab's images in an archive by skopeo."""
    if shutil.which("skopeo") is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")
    subprocess.run(
        [
            *("skopeo", "--insecure-policy", "copy", "--quiet"),
            # a docker-archive has no manifest to keep; its layers are plain tars in any case
            *(["--preserve-digests"] if kind == "oci-archive" else []),
            *(f"oci:{IMAGES / name}", f"{kind}:{target}:{tag}"),
        ],
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_the_image_is_the_one_that_the_layout_gives(
    project: LabProject,
    tmp_path: Path,
    kind: str,
    compressed: bool,  # noqa: FBT001 - both cases
) -> None:
    for name in ("base", "donor"):
        path = project.folder / f"{name}.tar"
        skopeo_archive(kind, name, path)
        if compressed:
            path.write_bytes(gzip.compress(path.read_bytes(), 1))
        project.change(f"oci:examples/lab/images/{name}", f"archive:{name}.tar")

    assert project.lock().outputs == project.committed().outputs

    built = pipeline.build(project.file, Silent(), locked=True, output=tmp_path / "image")
    (root,) = LayoutSource(tmp_path / "image").roots()
    assert validate_image(LayoutSource(tmp_path / "image"), root) == built.image
