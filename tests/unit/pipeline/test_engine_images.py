"""Base and donor out of an engine: pinned, locked, built as from anywhere else, and read once."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from builder import pinning, pipeline
from builder.edges.daemon_api import EngineSocket
from builder.edges.layout import LayoutSource
from builder.oci.image_errors import TooManyLayersError
from builder.progress import Silent
from builder.read.errors import UnpinnedSourceError
from deploy.node_errors import EngineStoppedError
from deploy.supplying import offer_of
from tests.fake_engine import NAME, containerd_store, graph_driver
from tests.project import BASE, BASE_CONFIG, DONOR, Project
from tests.unit.oci.archives import Published, file, tar_of
from tests.unit.oci.image_archives import saved_members
from tests.validate import validate_image

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.read.loaded import LoadedManifest
    from tests.fake_engine import FakeEngine


def base() -> Published:
    published = Published()
    published.image(tar_of(*BASE), config=BASE_CONFIG)
    return published


def donor() -> Published:
    published = Published()
    published.image(tar_of(*DONOR))
    return published


@pytest.fixture
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeEngine]:
    """The engine of this machine, with the project's base."""
    start = getattr(request, "param", graph_driver)
    with start(tmp_path / "engine.sock", base()) as found:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{found.path}")
        yield found


def asked_of_engine(project: Project, pin: str, more: str = "") -> None:
    """The project's base out of the engine; its layout is gone."""
    (root,) = LayoutSource(project.folder / "images/base").roots()
    project.edit(root.digest, pin)
    project.edit('"oci:images/base"', f'"docker:{NAME}"{more}')
    shutil.rmtree(project.folder / "images/base")


@pytest.mark.parametrize("engine", [graph_driver, containerd_store], indirect=True)
def test_the_image_is_the_one_that_the_layout_gives(project: Project, engine: FakeEngine) -> None:
    before = project.lock().lock
    asked_of_engine(project, engine.id)
    shutil.rmtree(project.folder / ".sparklock")

    after = project.lock().lock

    assert after.outputs == before.outputs
    assert after.image.base.asked == f"docker:{NAME}"
    assert after.image.base.layers == before.image.base.layers
    assert (after.image.picks, after.image.tables) == (before.image.picks, before.image.tables)
    assert project.check().lock == after
    built = project.build(locked=True, output=project.folder / "out")
    (root,) = LayoutSource(project.folder / "out").roots()
    assert validate_image(LayoutSource(project.folder / "out"), root) == built.image


def test_the_lock_is_that_of_an_archive_but_for_what_was_asked(
    project: Project, engine: FakeEngine
) -> None:
    (project.folder / "base.tar").write_bytes(tar_of(*saved_members(base())))
    project.edit("oci:images/base", "archive:base.tar")
    archive = project.lock().lock
    project.edit("archive:base.tar", f"docker:{NAME}")
    project.edit(archive.image.base.manifest_digest, engine.id)

    found = project.lock().lock

    base_record = found.image.base.model_copy(update={"asked": archive.image.base.asked})
    image = found.image.model_copy(update={"base": base_record})
    cluster = {"cluster_digest": archive.cluster_digest}
    assert found.model_copy(update={"image": image, **cluster}) == archive


@pytest.mark.parametrize("engine", [graph_driver, containerd_store], indirect=True)
def test_an_unpinned_image_is_offered_its_id_and_is_not_read(
    project: Project, engine: FakeEngine
) -> None:
    asked_of_engine(project, engine.id)
    project.edit(f'\ndigest = "{engine.id}"', "")

    with pytest.raises(UnpinnedSourceError) as caught:
        project.lock()

    (message,) = caught.value.messages
    assert caught.value.exit_code == 2
    assert message.remedy.endswith(f'add: digest = "{engine.id}"')
    assert engine.saves == 0
    added = message.remedy.partition("add: ")[2]
    project.edit(f'"docker:{NAME}"', f'"docker:{NAME}"\n{added}')
    assert project.lock().written


@pytest.mark.parametrize("engine", [graph_driver, containerd_store], indirect=True)
def test_inv_pin_writes_the_id_and_reads_no_image(project: Project, engine: FakeEngine) -> None:
    asked_of_engine(project, "sha256:" + "0" * 64)

    report = pinning.pin(project.file, "base", Silent())

    assert "(image ID)" in report.text()
    assert f'source = "docker:{NAME}"\ndigest = "{engine.id}"\n' in project.file.read_text()
    assert not pinning.pin(project.file, "base", Silent()).written
    assert engine.saves == 0
    assert project.lock().written


def test_a_donor_can_be_an_engines_too(project: Project, tmp_path: Path) -> None:
    before = project.lock().lock
    with (
        graph_driver(tmp_path / "engine.sock", donor()) as engine,
        pytest.MonkeyPatch.context() as m,
    ):
        m.setenv("DOCKER_HOST", f"unix://{engine.path}")
        (root,) = LayoutSource(project.folder / "images/donor").roots()
        project.edit("oci:images/donor", f"docker:{NAME}")
        project.edit(root.digest, engine.id)
        after = project.lock().lock
    assert after.outputs == before.outputs
    assert after.image.picks == before.image.picks  # with the layer that each came from


@pytest.mark.parametrize("engine", [graph_driver, containerd_store], indirect=True)
def test_the_second_lock_and_a_build_ask_the_engine_nothing(
    project: Project, engine: FakeEngine
) -> None:
    asked_of_engine(project, engine.id)
    project.lock()
    assert engine.saves == 1
    engine.gone = True
    asked = list(engine.asked)

    project.lock_file.unlink()
    assert project.lock().written
    project.build(locked=True)

    assert engine.asked == asked


@pytest.mark.parametrize("engine", [graph_driver, containerd_store], indirect=True)
def test_nodes_get_the_layers_of_the_base_out_of_one_save(
    project: Project, engine: FakeEngine
) -> None:
    asked_of_engine(project, engine.id)
    project.lock()

    offer = offer_of(project.build(locked=True))

    for digest, stream in offer.streams.items():
        if offer.find(digest) is None:
            with stream.open() as chunks:
                assert sum(map(len, chunks)) == stream.size_bytes
    assert all(offer.find(digest) for digest in offer.blobs)
    assert engine.saves == 2


def test_the_engine_of_a_node_is_reached_by_its_name(project: Project, tmp_path: Path) -> None:
    reached = []
    with graph_driver(tmp_path / "node.sock", base()) as engine:

        @contextmanager
        def reach(loaded: LoadedManifest, node: str) -> Iterator[EngineSocket]:
            reached.append((loaded.path, node))
            why = partial(EngineStoppedError, node, found="")
            yield EngineSocket(engine.path, why)

        asked_of_engine(project, engine.id, '\nnode = "b"')
        report = pipeline.lock(project.file, Silent(), reach=reach)
        assert report.written
        assert reached == [(project.file, "b")]
        engine.gone = True
        shutil.rmtree(project.folder / ".sparklock")
        with pytest.raises(EngineStoppedError) as caught:
            pipeline.lock(project.file, Silent(), reach=reach)
        assert caught.value.exit_code == 5


def test_a_base_with_too_many_layers_is_refused(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = Published()
    more = [tar_of(file(f"more/{number}")) for number in range(124)]
    published.image(tar_of(*BASE), *more, config=BASE_CONFIG)
    with graph_driver(tmp_path / "engine.sock", published) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.path}")
        asked_of_engine(project, engine.id)
        with pytest.raises(TooManyLayersError):
            project.lock()
