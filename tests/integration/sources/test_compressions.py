"""Images whose layers skopeo compressed: other layers, and the very files of the plain ones."""

from __future__ import annotations

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


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_compressed_images_give_the_same_files(
    project: LabProject, tmp_path: Path, compression: str
) -> None:
    for name in ("base", "donor"):
        compress(IMAGES / name, project.folder / name, compression)
        project.change(f"oci:examples/lab/images/{name}", f"oci:{name}")
        (root,) = LayoutSource(project.folder / name).roots()
        project.repin(f"oci:{name}", root.digest)

    image, committed = project.lock().image, project.committed().image

    assert {layer.media_type.rpartition("+")[2] for layer in image.base.layers} == {compression}
    assert [x.diff_id for x in image.base.layers] == [x.diff_id for x in committed.base.layers]
    assert [(x.target, x.mode, x.digest) for x in image.picks] == [
        (x.target, x.mode, x.digest) for x in committed.picks
    ]
    assert image.tables == committed.tables
    assert image.base.dirs == committed.base.dirs

    built = pipeline.build(project.file, Silent(), locked=True, output=tmp_path / "image")
    (root,) = LayoutSource(tmp_path / "image").roots()
    assert validate_image(LayoutSource(tmp_path / "image"), root) == built.image


def compress(layout: Path, target: Path, compression: str) -> None:
    if shutil.which("skopeo") is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")
    subprocess.run(
        [
            *("skopeo", "--insecure-policy", "copy", "--dest-compress-format", compression),
            *(f"oci:{layout}", f"oci:{target}"),
        ],
        check=True,
        capture_output=True,
    )
