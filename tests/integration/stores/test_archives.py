"""One archive loads on both of Docker's stores, whole or without what is there already."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from builder.edges.disk import write_whole
from builder.labels import image_reference
from builder.oci.dual import DualArchive
from deploy.lab.control import LabNode
from deploy.lab.errors import LabCommandError
from tests.integration.stores.conftest import CONTAINERD, GRAPH_DRIVER
from tests.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.reports import Built
    from deploy.lab.lifecycle import LabState

pytestmark = pytest.mark.lab


@dataclass(frozen=True)
class Engine:
    """A node's engine, which has no image of the project before and after."""

    node: LabNode

    def load(self, path: Path) -> str:
        """What `docker load` says of an archive."""
        target = self.node.root / "srv" / "image.tar"
        target.write_bytes(path.read_bytes())
        try:
            return self.node.run(["docker", "load", "--input", "/srv/image.tar"])
        finally:
            target.unlink()

    def inspect(self, name: str) -> dict[str, Any]:
        (found,) = json.loads(self.node.run(["docker", "image", "inspect", name]))
        document: dict[str, Any] = found
        return document

    def unpacks(self, name: str) -> bool:
        """Whether a container can be made: the only proof that all layers are there."""
        self.node.run(["docker", "create", "--name", "proof", "--pull=never", name])
        self.node.run(["docker", "rm", "proof"])
        return True

    def forget(self) -> None:
        listed = ["docker", "image", "ls", "--format={{.Repository}}:{{.Tag}}", "sparklock/small"]
        images = self.node.run(listed).split()
        if images:
            self.node.run(["docker", "image", "rm", "--force", *images])


@pytest.fixture(params=[GRAPH_DRIVER, CONTAINERD])
def node(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def engine(mixed_lab: LabState, node: str) -> Iterator[Engine]:
    found = Engine(LabNode(mixed_lab.spec, node))
    found.forget()
    yield found
    found.forget()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """An image of two base layers, one of them loaded before, and ours."""
    project = Project(tmp_path_factory.mktemp("project"))
    project.build(output=project.folder / "first.tar")
    project.edit("oci:images/base", "archive:first.tar")
    project.edit(
        project.read_lock().image.base.manifest_digest, project.read_lock().outputs.manifest_digest
    )
    project.write("files/template.jinja", "another\n")
    return project.build(output=project.folder / "image.tar")


def name_of(built: Built) -> str:
    return image_reference(built.lock.name, built.lock.outputs.manifest_digest)


def test_a_whole_archive_has_the_locks_digests_in_the_engine(
    engine: Engine, built: Built, node: str
) -> None:
    engine.load(built.loaded.folder / "image.tar")

    found = engine.inspect(name_of(built))
    outputs = built.lock.outputs
    wanted = outputs.config_digest if node == GRAPH_DRIVER else outputs.manifest_digest
    assert found["Id"] == wanted
    assert found["RepoTags"] == [name_of(built)]
    assert found["RootFS"]["Layers"] == [layer.diff_id for layer in built.image.layers]
    assert engine.unpacks(name_of(built))


def test_an_archive_without_the_layers_that_are_there_loads_as_well(
    engine: Engine, built: Built, node: str, tmp_path: Path
) -> None:
    engine.load(built.loaded.folder / "first.tar")
    left_out = frozenset(layer.digest for layer in built.lock.image.base.layers)
    partial = DualArchive(built.image, built.open_blob, name_of(built), left_out)
    write_whole(tmp_path / "partial.tar", partial.chunks())
    assert partial.size_bytes < DualArchive(built.image, built.open_blob).size_bytes

    engine.load(tmp_path / "partial.tar")

    outputs = built.lock.outputs
    wanted = outputs.config_digest if node == GRAPH_DRIVER else outputs.manifest_digest
    assert engine.inspect(name_of(built))["Id"] == wanted
    assert engine.unpacks(name_of(built))


def test_an_archive_without_a_layer_that_is_not_there_is_refused_by_name(
    engine: Engine, built: Built, tmp_path: Path
) -> None:
    left_out = built.lock.image.base.layers[0].digest
    partial = DualArchive(built.image, built.open_blob, name_of(built), frozenset({left_out}))
    write_whole(tmp_path / "partial.tar", partial.chunks())

    with pytest.raises(LabCommandError) as caught:
        engine.load(tmp_path / "partial.tar")

    assert left_out.removeprefix("sha256:") in str(caught.value)
