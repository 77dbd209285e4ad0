"""Images out of real engines, of both image stores, here and over ssh: one save, one lock."""

from __future__ import annotations

import gzip
import random
import shutil
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from builder import pipeline
from builder.digest import canonical_json, digest_bytes
from builder.edges.archive import ArchiveSource
from builder.edges.daemon import DaemonSource
from builder.edges.daemon_api import EngineSocket, engine_behind
from builder.edges.daemon_errors import EngineImageMissingError
from builder.edges.files import read_manifest
from builder.edges.store import BlobStore
from builder.oci.dual import DualArchive
from builder.oci.layout import CONTAINERD_NAME, INDEX
from builder.oci.model import DOCKER_LAYER_GZIP, Platform
from builder.oci.select import select_manifest
from builder.progress import Silent
from builder.read.errors import UnpinnedSourceError
from deploy import pipeline as deployer
from deploy.edges.reach import engine_of_node
from deploy.lab import nodes
from deploy.lab.control import LabNode
from deploy.lab.lifecycle import lab_up
from deploy.lab.manifest import lab_manifest
from deploy.node_errors import EngineSocketMissingError, EngineStoppedError
from tests.contract.test_image_source import (
    LAYER,
    Offered,
    test_a_blob_can_be_left_half_read_and_opened_again,
    test_a_manifest_can_be_opened_too,
    test_absent_blobs_are_missing,
    test_an_index_is_asked_for_and_a_manifest_given,
    test_blobs_come_in_chunks_of_at_most_a_mebibyte,
    test_configs_are_the_raw_bytes,
    test_documents_are_the_raw_bytes,
    test_the_image_is_the_only_root,
    test_the_place_is_in_one_line_and_names_the_source,
)
from tests.integration.sources.conftest import IMAGES, lab_image
from tests.integration.sources.test_archives import skopeo_archive
from tests.integration.verify.conftest import locked_pair
from tests.unit.oci.archives import Published, config_document, file, tar_of
from tests.unit.oci.image_archives import layout_members

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.digest import Digest
    from builder.edges.daemon_api import EngineApi
    from builder.lock import Lock
    from deploy.lab.lifecycle import LabState
    from deploy.lab.spec import LabSpec
    from tests.integration.sources.conftest import LabProject

__all__ = (
    "test_a_blob_can_be_left_half_read_and_opened_again",
    "test_a_manifest_can_be_opened_too",
    "test_absent_blobs_are_missing",
    "test_an_index_is_asked_for_and_a_manifest_given",
    "test_blobs_come_in_chunks_of_at_most_a_mebibyte",
    "test_configs_are_the_raw_bytes",
    "test_documents_are_the_raw_bytes",
    "test_the_image_is_the_only_root",
    "test_the_place_is_in_one_line_and_names_the_source",
)

pytestmark = pytest.mark.lab

AMD64 = Platform("linux", "amd64")
GRAPH_DRIVER, CONTAINERD = "spark-a", "spark-b"
BOTH = pytest.mark.parametrize("node", [GRAPH_DRIVER, CONTAINERD])


def socket_of(spec: LabSpec, node: str) -> Path:
    """The node's engine as this machine reaches it, without ssh."""
    return nodes.inside(spec.node(node), nodes.ENGINE_SOCKET)


@contextmanager
def opened(spec: LabSpec, node: str, place: str) -> Iterator[EngineApi]:
    why = partial(EngineStoppedError, node, found="")
    with engine_behind(EngineSocket(socket_of(spec, node), why), place) as engine:
        yield engine


@contextmanager
def loaded(spec: LabSpec, node: str, archive: Path, name: str) -> Iterator[None]:
    """An archive's image in a node's engine, for the time of the block."""
    engine = LabNode(spec, node)
    shutil.copy(archive, engine.root / "srv" / archive.name)
    try:
        engine.run(["docker", "load", "--quiet", "--input", f"/srv/{archive.name}"])
        yield
    finally:
        (engine.root / "srv" / archive.name).unlink()
        engine.run(["docker", "image", "rm", "--force", name])


@contextmanager
def loaded_bytes(spec: LabSpec, node: str, folder: Path, published: Published) -> Iterator[str]:
    """As `loaded`, an image of ours, with the manifest that it has here."""
    (top,) = published.source.tops
    image = select_manifest(published.source, top.digest, AMD64).image
    path = folder / "image.tar"
    name = "contract/image:v1"
    archive = DualArchive(image, published.source.open_blob, name)
    path.write_bytes(b"".join(archive.chunks()))
    with loaded(spec, node, path, name):
        yield name


@pytest.fixture(params=[GRAPH_DRIVER, CONTAINERD])
def offered(
    request: pytest.FixtureRequest, mixed_lab: LabState, tmp_path: Path
) -> Iterator[Offered]:
    published = Published()
    image = published.image(LAYER)
    with loaded_bytes(mixed_lab.spec, request.param, tmp_path, published) as name:
        way = partial(opened, mixed_lab.spec, request.param)
        store = BlobStore(tmp_path / "store")
        yield Offered(DaemonSource(name, None, way, store, Silent(), asked="test"), image, _no_way)


def _no_way(_digest: Digest, _data: bytes | None) -> None:
    raise AssertionError("a real engine is not damaged")  # noqa: EM101, TRY003


def asks_engine(project: LabProject, name: str, pin: str, node: str = "") -> None:
    """The project's base or donor out of an engine, from an archive before."""
    at_node = f'\nnode = "{node}"' if node else ""
    project.change(f'"archive:{name}.tar"', f'"docker:{name}:v1"{at_node}')
    text = project.file.read_text()
    start = text.index(f'"docker:{name}:v1"')
    head, tail = text[:start], text[start:]
    old = tail[tail.index("sha256:") :][:71]
    project.file.write_text(head + tail.replace(old, pin, 1))


def in_lab(project: LabProject, spec: LabSpec) -> None:
    """The project's nodes are the lab's."""
    (project.folder / "lab").symlink_to(spec.path)
    project.file.write_text(lab_manifest(project.file.read_text(), spec, "lab/ssh_config"))


def without_place(lock: Lock) -> dict[str, Any]:
    """The lock but for what was asked, in source and manifest."""
    found = lock.model_dump(mode="json")
    del found["cluster_digest"]
    for item in (found["image"]["base"], *found["image"]["donors"]):
        del item["asked"]
    return found


def image_ids(engine: LabNode) -> list[str]:
    """The IDs of an engine's images, one per name; the order in which it lists them may change."""
    return sorted(engine.run(["docker", "images", "--all", "--quiet", "--no-trunc"]).split())


@BOTH
def test_an_engines_image_locks_as_the_archive_that_it_saves(
    mixed_lab: LabState, project: LabProject, node: str
) -> None:
    spec = mixed_lab.spec
    engine = LabNode(spec, node)
    in_lab(project, spec)
    ids = {}
    with both_loaded(spec, node, project.folder):
        for name in ("base", "donor"):
            ids[name] = engine.run(
                ["docker", "image", "inspect", "--format", "{{.Id}}", f"{name}:v1"]
            ).strip()
            saved = engine.root / "srv" / f"{name}-saved.tar"
            engine.run(["docker", "save", "--output", f"/srv/{saved.name}", f"{name}:v1"])
            shutil.move(saved, project.folder / f"{name}.tar")
            project.change(f"oci:examples/lab/images/{name}", f"archive:{name}.tar")
            source = ArchiveSource(project.folder / f"{name}.tar", spool=project.folder)
            (root,) = source.roots()
            project.repin(f"archive:{name}.tar", root.digest)
        of_archives = project.lock()
        shutil.rmtree(project.folder / ".sparklock")
        images = image_ids(engine)
        for name in ("base", "donor"):
            asks_engine(project, name, ids[name], node)

        found = pipeline.lock(project.file, Silent(), reach=engine_of_node).lock

        assert without_place(found) == without_place(of_archives)
        assert engine.run(["docker", "ps", "--all", "--quiet"]) == ""
        assert image_ids(engine) == images
    if node == GRAPH_DRIVER:  # plain layers, and a manifest that is made here either way
        assert found.outputs == project.committed().outputs
    # the images are gone from the engine, and nothing asks for them
    project.file.with_name("lockfile.json").unlink()
    assert pipeline.lock(project.file, Silent(), reach=engine_of_node).lock == found
    assert pipeline.build(project.file, Silent(), locked=True).lock == found


@contextmanager
def both_loaded(spec: LabSpec, node: str, folder: Path) -> Iterator[None]:
    for name in ("base", "donor"):
        skopeo_archive("docker-archive", name, folder / f"{name}-given.tar", f"{name}:v1")
    with (
        loaded(spec, node, folder / "base-given.tar", "base:v1"),
        loaded(spec, node, folder / "donor-given.tar", "donor:v1"),
    ):
        yield


@BOTH
def test_an_unpinned_image_is_offered_its_id(
    mixed_lab: LabState, project: LabProject, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is that of Docker's own settings here."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket_of(mixed_lab.spec, node)}")
    shutil.copytree(IMAGES / "donor", project.folder / "examples/lab/images/donor")
    skopeo_archive("docker-archive", "base", project.folder / "base.tar", "base:v1")
    project.change("oci:examples/lab/images/base", "archive:base.tar")
    with loaded(mixed_lab.spec, node, project.folder / "base.tar", "base:v1"):
        asks_engine(project, "base", "sha256:" + "0" * 64)
        project.change('\ndigest = "sha256:' + "0" * 64 + '"', "")

        with pytest.raises(UnpinnedSourceError) as caught:
            project.lock()
        (message,) = caught.value.messages
        added = message.remedy.partition("add: ")[2]
        project.change('"docker:base:v1"', f'"docker:base:v1"\n{added}')
        assert project.lock().image.base.asked == "docker:base:v1"

        project.change("docker:base:v1", "docker:base")
        shutil.rmtree(project.folder / ".sparklock")
        project.change(f"\n{added}", "")
        with pytest.raises(EngineImageMissingError) as missing:
            project.lock()
        assert missing.value.tags == ("base:v1",)


def test_containerds_store_keeps_compressed_layers_and_a_graph_driver_gives_plain_ones(
    mixed_lab: LabState, tmp_path: Path
) -> None:
    """So one image in two engines is two bases with equal files."""
    published = Published()
    plain = tar_of(file("a", b"x" * 100_000))
    stored = published.add_layer(gzip.compress(plain, mtime=0), DOCKER_LAYER_GZIP)
    published.source.tops = [published.manifest(config_document(digest_bytes(plain)), stored)]
    found = {}
    for node in (GRAPH_DRIVER, CONTAINERD):
        with loaded_bytes(mixed_lab.spec, node, tmp_path, published) as name:
            way = partial(opened, mixed_lab.spec, node)
            store = BlobStore(tmp_path / node)
            source = DaemonSource(name, None, way, store, Silent(), asked="test")
            found[node] = select_manifest(source, None, AMD64).image
    graph, containerd = found[GRAPH_DRIVER], found[CONTAINERD]
    assert containerd.manifest.descriptor.digest == published.source.tops[0].digest
    assert containerd.layers[0].descriptor.digest == stored.digest
    assert graph.layers[0].descriptor.digest == graph.layers[0].diff_id
    assert graph.layers[0].diff_id == containerd.layers[0].diff_id
    assert graph.config == containerd.config


def test_an_index_of_which_only_our_platform_was_pulled_is_read(
    mixed_lab: LabState, tmp_path: Path
) -> None:
    """As an engine with containerd's store has every image of several platforms."""
    published = Published()
    ours = published.image(LAYER)
    other = published.image(tar_of(file("other")), architecture="arm64")
    index = published.index(
        (ours.manifest.descriptor, "linux/amd64"), (other.manifest.descriptor, "linux/arm64")
    )
    absent = {other.manifest.descriptor.digest, other.config.digest, other.layers[0].diff_id}
    for digest in absent:
        del published.source.blobs[digest]
    name = "contract/index:v1"
    named = index.as_json() | {"annotations": {CONTAINERD_NAME: f"docker.io/{name}"}}
    *members, _, marker = layout_members(published)
    top = file(INDEX, canonical_json({"schemaVersion": 2, "manifests": [named]}))
    (tmp_path / "index.tar").write_bytes(tar_of(*members, top, marker))
    with loaded(mixed_lab.spec, CONTAINERD, tmp_path / "index.tar", name):
        way = partial(opened, mixed_lab.spec, CONTAINERD)
        store = BlobStore(tmp_path / "store")
        source = DaemonSource(name, index.digest, way, store, Silent(), asked="test")
        assert source.image_id() == index.digest
        found = select_manifest(source, None, AMD64)
        assert (found.index_digest, found.image) == (index.digest, ours)


@BOTH
def test_an_engine_that_dies_while_it_saves_is_told_and_the_next_lock_begins_anew(
    mixed_lab: LabState, project: LabProject, tmp_path: Path, node: str
) -> None:
    published = Published()
    published.image(tar_of(file("a", random.Random(1).randbytes(12_000_000))))  # noqa: S311
    in_lab(project, mixed_lab.spec)
    manifest = read_manifest(project.file)
    engine = LabNode(mixed_lab.spec, node)

    class Crash(Silent):
        def advance(self, what: str, done_bytes: int, total_bytes: int) -> None:
            assert what
            assert done_bytes <= total_bytes
            if not crashed:
                crashed.append(True)
                engine.stop_engine(crash=True)

    crashed: list[bool] = []

    @contextmanager
    def by_ssh(place: str) -> Iterator[EngineApi]:
        with engine_of_node(manifest, node) as socket, engine_behind(socket, place) as api:
            yield api

    with loaded_bytes(mixed_lab.spec, node, tmp_path, published) as name:
        store = BlobStore(tmp_path / "store")
        source = DaemonSource(name, None, by_ssh, store, Crash(), asked="test")
        try:
            with pytest.raises(EngineStoppedError) as caught:
                source.roots()
        finally:
            engine.start_engine()
        assert caught.value.exit_code == 5
        assert list((tmp_path / "store").glob("tmp/*")) == []
        assert source.roots()


def test_a_node_without_the_socket_is_exit_5(mixed_lab: LabState, project: LabProject) -> None:
    in_lab(project, mixed_lab.spec)
    project.change('ssh = "spark-a"', 'ssh = "spark-a"\ndocker_socket = "/run/none.sock"')
    project.change('"oci:examples/lab/images/base"', '"docker:base:v1"\nnode = "spark-a"')
    with pytest.raises(EngineSocketMissingError) as caught:
        pipeline.lock(project.file, Silent(), reach=engine_of_node)
    assert caught.value.exit_code == 5


def test_a_base_that_only_one_node_has_is_deployed_on_both(
    lab_spec: LabSpec, tmp_path: Path
) -> None:
    pair = locked_pair(lab_up(lab_spec, Silent()), tmp_path)
    skopeo_archive("docker-archive", "base", tmp_path / "base.tar", "base:v1")
    _, base = lab_image("base", AMD64)
    with loaded(lab_spec, "spark-a", tmp_path / "base.tar", "base:v1"):
        text = pair.manifest_path.read_text()
        text = text.replace(
            '"oci:examples/lab/images/base"', '"docker:base:v1"\nnode = "spark-a"'
        ).replace(base.manifest.descriptor.digest, base.config.digest, 1)
        pair.manifest_path.write_text(text)
        shutil.rmtree(tmp_path / "examples/lab/images/base")
        shutil.rmtree(tmp_path / pipeline.STORE)
        lock = pipeline.lock(pair.manifest_path, Silent(), reach=engine_of_node).lock
        store = BlobStore(tmp_path / pipeline.STORE)
        assert not any(store.has(layer.digest) for layer in lock.image.base.layers)

        report = deployer.deploy(pair.manifest_path, Silent())

        sent = dict(report.sent_bytes)
        whole_bytes = sum(layer.size_bytes for layer in lock.image.base.layers)
        assert sent["spark-b"] > whole_bytes
        assert pair.verify("image").passed
