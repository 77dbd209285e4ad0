"""The embedded default, locked and built out of a real registry: the image is the same one."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.edges.layout import LayoutSource
from builder.edges.registry.errors import OfflineError
from builder.oci.model import Platform
from builder.progress import Silent
from builder.read.errors import UnpinnedSourceError
from tests.integration.sources.conftest import IMAGES, lab_image
from tests.validate import validate_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.debian_registry import DebianRegistry
    from tests.integration.sources.conftest import LabProject

AMD64 = Platform("linux", "amd64")


@pytest.fixture(params=["our requests", "skopeo"])
def filled(
    request: pytest.FixtureRequest, project: LabProject, registry: DebianRegistry
) -> LabProject:
    """The default, its images in the registry."""
    team = "ours" if request.param == "our requests" else "skopeos"
    for name in ("base", "donor"):
        if team == "ours":
            source, image = lab_image(name, AMD64)
            registry.push(image, source.open_blob, repository=f"{team}/{name}")
        else:
            push_with_skopeo(IMAGES / name, f"{registry.host}/{team}/{name}:v1")
        project.change(f"oci:examples/lab/images/{name}", f"{registry.host}/{team}/{name}:v1")
    return project


def push_with_skopeo(layout: Path, target: str) -> None:
    if shutil.which("skopeo") is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")
    subprocess.run(
        [
            *("skopeo", "--insecure-policy", "copy", "--preserve-digests"),
            *("--dest-tls-verify=false", f"oci:{layout}", f"docker://{target}"),
        ],
        check=True,
        capture_output=True,
    )


def test_the_image_is_the_one_that_the_layout_gives(filled: LabProject, tmp_path: Path) -> None:
    lock = filled.lock()

    committed = filled.committed()
    assert lock.outputs == committed.outputs
    assert lock.inputs_digest == committed.inputs_digest
    assert lock.image.base.manifest_digest == committed.image.base.manifest_digest

    built = pipeline.build(filled.file, Silent(), locked=True, output=tmp_path / "image")
    (root,) = LayoutSource(tmp_path / "image").roots()
    assert validate_image(LayoutSource(tmp_path / "image"), root) == built.image


def test_a_tag_without_pin_is_offered_the_digest_it_has_now(filled: LabProject) -> None:
    pin = filled.committed().image.base.manifest_digest
    filled.change(f'digest = "{pin}"\n', "")

    with pytest.raises(UnpinnedSourceError) as caught:
        filled.lock()
    assert f'digest = "{pin}"' in str(caught.value)


def test_checking_the_lock_asks_nobody(filled: LabProject, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.lock()
    monkeypatch.setenv("SPARKLOCK_OFFLINE", "1")

    assert not pipeline.check_lock(filled.file).written
    assert not pipeline.build(filled.file, Silent(), locked=True).lock_written


def test_what_was_fetched_once_is_enough_for_the_next_lock(
    filled: LabProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = filled.lock()
    monkeypatch.setenv("SPARKLOCK_OFFLINE", "1")
    filled.change("max-model-len = 256", "max-model-len = 128")

    after = filled.lock()
    assert after.cluster_digest != before.cluster_digest
    assert after.outputs == before.outputs

    shutil.rmtree(filled.folder / pipeline.STORE)
    filled.change("max-model-len = 128", "max-model-len = 64")
    with pytest.raises(OfflineError):
        filled.lock()
