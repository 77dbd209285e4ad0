"""Nodes that have nothing get the whole image, wherever its base comes from."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from builder import pipeline as builder
from builder.edges.store import BlobStore
from builder.oci.model import Platform
from builder.progress import Silent
from deploy import pipeline as deployer
from deploy.lab.control import LabNode
from deploy.lab.lifecycle import lab_up
from tests.integration.sources.conftest import lab_image
from tests.integration.sources.test_archives import skopeo_archive
from tests.integration.verify.conftest import locked_pair

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from deploy.lab.spec import LabSpec
    from tests.debian_registry import DebianRegistry

pytestmark = pytest.mark.lab

AMD64 = Platform("linux", "amd64")


def from_registry(folder: Path, name: str, registry: DebianRegistry) -> str:
    source, image = lab_image(name, AMD64)
    registry.push(image, source.open_blob, repository=f"deployed/{name}")
    assert folder.is_dir()
    return f"{registry.host}/deployed/{name}:v1"


def from_archive(folder: Path, name: str, _registry: DebianRegistry) -> str:
    skopeo_archive("docker-archive", name, folder / f"{name}.tar")
    return f"archive:{name}.tar"


@pytest.mark.parametrize("put", [from_registry, from_archive])
def test_nodes_without_the_base_get_it(
    lab_spec: LabSpec,
    registry: DebianRegistry,
    tmp_path: Path,
    put: Callable[[Path, str, DebianRegistry], str],
) -> None:
    pair = locked_pair(lab_up(lab_spec, Silent()), tmp_path)
    text = pair.manifest_path.read_text()
    for name in ("base", "donor"):
        text = text.replace(f"oci:examples/lab/images/{name}", put(tmp_path, name, registry))
    pair.manifest_path.write_text(text)
    shutil.rmtree(tmp_path / "examples/lab/images")
    lock = builder.lock(pair.manifest_path, Silent()).lock
    store = BlobStore(tmp_path / builder.STORE)
    for layer in lock.image.base.layers:  # as on a machine that only builds what others locked
        store.path(layer.digest).unlink(missing_ok=True)

    report = deployer.deploy(pair.manifest_path, Silent())

    whole_bytes = sum(layer.size_bytes for layer in lock.image.base.layers)
    assert len(report.sent_bytes) == 2
    for node, sent_bytes in report.sent_bytes:
        assert sent_bytes > whole_bytes + lock.outputs.new_bytes
        found = LabNode(lab_spec, node).run(["docker", "images", "--quiet", "--no-trunc"])
        assert found.split() == [lock.outputs.config_digest]
    assert pair.verify("image").passed
