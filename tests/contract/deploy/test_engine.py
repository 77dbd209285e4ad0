from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder import labels
from builder.digest import digest_bytes
from builder.manifest import ContainerSection
from deploy import errors, node_errors
from deploy.edges.blobserver import BlobServer
from deploy.edges.engine import Engine
from deploy.edges.scene import look, sockets_of
from deploy.edges.ssh import NodeConnection
from deploy.launch import BindMount, ContainerSpec
from deploy.rights import rights
from deploy.state import ImageName, ImageStore
from tests.contract.deploy.conftest import until
from tests.contract.deploy.images import SmallImage, small_image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.contract.deploy.conftest import Sshd

pytestmark = pytest.mark.lab
LOCK = digest_bytes(b"lock")


@pytest.fixture(scope="module")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> SmallImage:
    """An image that the engine has pulled from us, under its tag alone."""
    image = small_image(tmp_path_factory.mktemp("image"))
    pull(engine, image)
    return image


def pull(engine: Engine, image: SmallImage) -> int:
    wanted = image.wanted
    with BlobServer(image.offer, lambda _: None) as server:
        source = f"127.0.0.1:{server.port}/sparklock/small"
        engine.pull(source, wanted.manifest_digest, lambda: False)
        engine.tag(f"{source}@{wanted.manifest_digest}", wanted.reference)
        engine.untag(f"{source}@{wanted.manifest_digest}")
        return server.sent_bytes


@pytest.fixture
def spec(image: SmallImage) -> ContainerSpec:
    return ContainerSpec(
        cluster="small",
        node="spark-a",
        rank=0,
        image=image.wanted.reference,
        manifest_digest=image.wanted.manifest_digest,
        command=("/usr/bin/sh", "-c", "echo to stdout; echo to stderr >&2; exec sleep 60"),
        env=(("GREETING", "it's $HOME"),),
        mounts=tuple(
            BindMount(path, path, read_only=True) for path in ("/usr/bin", "/usr/lib", "/usr/lib64")
        ),
        devices=("/dev/null",),
        hcas=(),
        gpus=False,
        shm_bytes=2**26,
        rights=rights(ContainerSection()),
        user=None,
    )


@pytest.fixture
def name(engine: Engine) -> Iterator[str]:
    """The name of a container that is gone after the test."""
    yield "sparklock-small-g1-r0"
    for each in ("sparklock-small-g1-r0", "renamed"):
        engine.remove(each)


def create(engine: Engine, name: str, spec: ContainerSpec) -> None:
    engine.create(name, {**spec.request(), "Labels": spec.labels(LOCK, 1)})


def test_an_engine_tells_its_version_store_and_platform(engine: Engine) -> None:
    facts = engine.facts()
    assert facts.version
    assert facts.store is ImageStore.GRAPH_DRIVER
    assert facts.platform.startswith("linux/")


def test_a_pulled_image_has_the_id_that_was_computed_before(
    engine: Engine, image: SmallImage
) -> None:
    found = engine.image(image.wanted.reference)
    assert found is not None
    assert found.engine_id == image.wanted.config_digest
    assert found.tags == (image.wanted.reference,)
    assert image.wanted.is_image(found)
    assert image.wanted.is_image(engine.image(image.wanted.config_digest))


def test_the_names_of_a_clusters_images_are_told_and_no_others(
    engine: Engine, image: SmallImage
) -> None:
    reference = image.wanted.reference
    repository = reference.rpartition(":")[0]
    engine.tag(reference, f"{repository}-2:same")
    try:
        names = {item.name: item.engine_id for item in engine.image_names(repository)}
    finally:
        engine.untag(f"{repository}-2:same")
    assert names[reference] == image.wanted.config_digest
    assert not any(name.startswith(f"{repository}-2") for name in names)


def test_the_name_of_a_tunnel_that_a_pull_left_is_told(engine: Engine, image: SmallImage) -> None:
    reference = image.wanted.reference
    repository = reference.rpartition(":")[0]
    before = {item for item in engine.image_names(repository) if item.is_tunnel}
    with BlobServer(image.offer, lambda _: None) as server:
        source = f"127.0.0.1:{server.port}/{repository}"
        engine.pull(source, image.wanted.manifest_digest, lambda: False)
    left = {item for item in engine.image_names(repository) if item.is_tunnel} - before
    name = f"{source}@{image.wanted.manifest_digest}"
    assert left == {ImageName(name, image.wanted.config_digest)}
    facts = engine.image(reference)
    assert facts is not None
    assert name in facts.left_over(repository)
    engine.untag(name)
    assert name not in {item.name for item in engine.image_names(repository)}
    assert engine.image(reference) is not None


def test_an_image_that_is_not_there_is_none(engine: Engine) -> None:
    assert engine.image("sparklock/none:here") is None
    assert engine.image(digest_bytes(b"none")) is None


def test_only_what_the_engine_lacks_is_fetched(
    engine: Engine, image: SmallImage, tmp_path: Path
) -> None:
    other = small_image(tmp_path, word="two")
    assert other.layer == image.layer
    assert pull(engine, other) == len(other.config)


def test_a_tampered_blob_is_refused_by_the_engine(
    engine: Engine, image: SmallImage, tmp_path: Path
) -> None:
    bad = small_image(tmp_path, word="three")
    config = digest_bytes(bad.config)
    (tmp_path / config).write_bytes(bad.config.replace(b"three", b"other"))
    with pytest.raises(node_errors.EngineError) as caught:
        pull(engine, bad)
    assert image.wanted.reference not in caught.value.detail
    assert engine.image(config) is None


def test_a_missing_blob_fails_the_pull(engine: Engine, tmp_path: Path) -> None:
    bad = small_image(tmp_path, word="four")
    (tmp_path / digest_bytes(bad.config)).unlink()
    with pytest.raises(node_errors.EngineError, match="pull"):
        pull(engine, bad)


def test_a_pull_stops_when_it_is_told_to(engine: Engine, tmp_path: Path) -> None:
    other = small_image(tmp_path, word="five")
    digest = other.wanted.manifest_digest
    with (
        BlobServer(other.offer, lambda _: None) as server,
        pytest.raises(errors.DeployInterruptedError),
    ):
        engine.pull(f"127.0.0.1:{server.port}/sparklock/small", digest, lambda: True)


def test_a_created_container_is_listed_with_its_labels_and_does_not_run(
    engine: Engine, spec: ContainerSpec, name: str
) -> None:
    create(engine, name, spec)
    (found,) = engine.containers("small")
    assert (found.name, found.rank, found.generation) == (name, 0, 1)
    assert (found.lock_digest, found.spec_digest) == (LOCK, spec.digest)
    assert found.image_id == engine.image(spec.image).engine_id  # type: ignore[union-attr] # it was pulled
    assert found.command == spec.command
    assert found.image == spec.image
    assert not found.running
    assert found.started_at == ""
    engine.start(name)
    (later,) = engine.containers("small")
    assert len(later.created_at) == len(later.started_at) == len("2026-01-01T00:00:00.000000000Z")
    assert found.created_at == later.created_at < later.started_at
    assert engine.containers("other") == ()


def test_a_container_gets_exactly_what_its_spec_says(
    engine: Engine, spec: ContainerSpec, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # docker-py adds the proxies of the user's docker config to every container, unless kept off.
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    create(engine, name, spec)
    found = engine._inspect(name)
    host = found["HostConfig"]
    assert "GREETING=it's $HOME" in found["Config"]["Env"]
    assert not any("proxy" in item.lower() for item in found["Config"]["Env"])
    assert host["Privileged"] is False
    assert host["CapAdd"] == ["IPC_LOCK"]
    assert host["NetworkMode"] == "host"
    assert host["IpcMode"] == "private"
    assert host["ShmSize"] == 2**26
    assert host["Init"] is True
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["LogConfig"] == {
        "Type": "json-file",
        "Config": {"max-file": "3", "max-size": "10m"},
    }
    assert {(u["Name"], u["Soft"]) for u in host["Ulimits"]} == {
        ("memlock", -1),
        ("nofile", 1_048_576),
    }
    assert all(mount["RW"] is False for mount in found["Mounts"])
    assert found["Config"]["Labels"][labels.SPEC_DIGEST] == spec.digest


def test_a_container_runs_is_stopped_and_runs_again(
    engine: Engine, spec: ContainerSpec, name: str
) -> None:
    create(engine, name, spec)
    engine.start(name)
    engine.start(name)
    assert engine.rank(name).running
    engine.stop(name, grace_s=1)
    engine.stop(name, grace_s=1)
    assert not engine.rank(name).running
    engine.start(name)
    assert engine.rank(name).running


def test_a_log_has_both_streams_and_only_the_lines_asked_for(
    engine: Engine, spec: ContainerSpec, name: str
) -> None:
    create(engine, name, spec)
    engine.start(name)
    until(lambda: "to stderr" in engine.log(name, tail=10))
    assert sorted(engine.log(name, tail=10).splitlines()) == ["to stderr", "to stdout"]
    assert len(engine.log(name, tail=1).splitlines()) == 1


def test_an_ended_container_tells_its_exit_code_and_when(
    engine: Engine, spec: ContainerSpec, name: str
) -> None:
    create(engine, name, replace(spec, command=("/usr/bin/sh", "-c", "exit 3")))
    engine.start(name)
    until(lambda: not engine.rank(name).running)
    state = engine.rank(name)
    assert state.exit_code == 3
    assert state.finished_at.startswith("20")


def test_a_name_that_is_taken_is_a_conflict(engine: Engine, spec: ContainerSpec, name: str) -> None:
    create(engine, name, spec)
    with pytest.raises(node_errors.EngineConflictError):
        create(engine, name, spec)


def test_a_container_is_renamed_and_removed_and_removing_again_is_nothing(
    engine: Engine, spec: ContainerSpec, name: str
) -> None:
    create(engine, name, spec)
    engine.start(name)
    engine.rename(name, "renamed")
    engine.remove("renamed")
    engine.remove("renamed")
    assert engine.containers("small") == ()


def test_creating_from_an_image_that_is_not_there_never_pulls(
    engine: Engine, spec: ContainerSpec, name: str
) -> None:
    with pytest.raises(node_errors.EngineNotFoundError):
        create(engine, name, replace(spec, image="sparklock/none:here"))


def test_a_missing_mount_source_is_refused_and_not_made(
    engine: Engine, spec: ContainerSpec, name: str, tmp_path: Path
) -> None:
    missing = tmp_path / "model"
    spec = replace(spec, mounts=(BindMount(str(missing), "/m", read_only=True),))
    with pytest.raises(node_errors.EngineError, match="bind source path does not exist"):
        create(engine, name, spec)
    assert not missing.exists()


def test_an_engine_that_does_not_answer_is_told_by_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    with pytest.raises(node_errors.EngineStoppedError):
        Engine("spark-a", path, lambda: node_errors.EngineStoppedError("spark-a"))


def test_looking_at_an_engine_does_not_load_docker(engine: Engine) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from deploy.edges.engine import Engine\n"
        "engine = Engine('spark-a', Path(sys.argv[1]), RuntimeError)\n"
        "engine.facts(), engine.containers('pair'), engine.others('pair'), engine.image('none')\n"
        "assert not {'docker', 'requests', 'urllib3'} & set(sys.modules)\n"
    )
    path = str(engine._socket)
    subprocess.run([sys.executable, "-c", program, path], check=True)


def test_an_idle_connection_that_the_engine_closed_is_made_again(engine: Engine) -> None:
    before = engine.facts()
    for idle in engine._reads._idle:
        assert idle.sock is not None
        idle.sock.shutdown(socket.SHUT_RDWR)
    assert engine.facts() == before


def test_docker_is_not_loaded_with_the_pipeline() -> None:
    program = "import sys, deploy.pipeline; assert 'docker' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)


def test_a_rank_tells_which_start_of_which_container_it_is(
    engine: Engine, spec: ContainerSpec, name: str, image: SmallImage
) -> None:
    place = replace(spec, env=(*spec.env, ("VLLM_HOST_IP", "192.168.200.12")))
    create(engine, name, place)
    created = engine.rank(name)
    assert created.identity.started_at == ""
    assert dict(created.identity.labels)[labels.SPEC_DIGEST] == place.digest
    assert image.wanted.diff_ids == engine.images({created.identity.image_id})[0].diff_ids
    assert (created.command, created.host_ip) == (place.command, "192.168.200.12")
    engine.start(name)
    first = engine.rank(name)
    engine.stop(name, grace_s=0)
    engine.start(name)
    second = engine.rank(name)
    assert first.identity.started_at < second.identity.started_at
    assert first.identity.id == second.identity.id == created.identity.id


def test_only_what_a_container_wrote_since_a_time_is_read(
    engine: Engine, spec: ContainerSpec, name: str
) -> None:
    program = "echo begun; for n in 1 2 3; do echo line $n; done; exec sleep 60"
    create(engine, name, replace(spec, command=("/usr/bin/sh", "-c", program)))
    engine.start(name)
    until(lambda: len(engine.log_since(name, "", tail=10)) == 4)
    lines = engine.log_since(name, "", tail=10)
    assert [line.text for line in lines] == ["begun", "line 1", "line 2", "line 3"]
    assert engine.log_since(name, engine.rank(name).log_from, tail=10) == lines
    assert engine.log_since(name, lines[1].at, tail=10) == lines[2:]
    assert engine.log_since(name, "", tail=1) == lines[3:]
    engine.stop(name, grace_s=0)
    engine.start(name)
    until(lambda: len(engine.log_since(name, "", tail=10)) == 8)
    assert len(engine.log_since(name, engine.rank(name).log_from, tail=10)) == 4
    engine.stop(name, grace_s=0)
    assert len(engine.log_since(name, engine.rank(name).log_from, tail=10)) >= 4


def test_a_container_that_cannot_be_started_is_told_with_the_reason(
    engine: Engine, spec: ContainerSpec, name: str
) -> None:
    gone = BindMount("/srv/not-there-at-all", "/srv/x", read_only=True)
    with pytest.raises(node_errors.EngineError):
        create(engine, name, replace(spec, mounts=(*spec.mounts, gone)))
    create(engine, name, replace(spec, devices=("/dev/not-there-at-all",)))
    with pytest.raises(node_errors.ContainerRefusedError) as caught:
        engine.start(name)
    assert caught.value.found == "the node has no device /dev/not-there-at-all"


def test_a_node_shows_the_processes_of_a_container_and_of_no_other(
    engine: Engine, spec: ContainerSpec, name: str, start_sshd: Callable[..., Sshd]
) -> None:
    program = "echo ready; while :; do :; done"
    create(engine, name, replace(spec, command=("/usr/bin/sh", "-c", program)))
    engine.start(name)
    until(lambda: "ready" in engine.log(name, tail=1))
    with NodeConnection(start_sshd().destination()) as connection:
        scene = look(connection, engine.rank(name).identity.id, ["/", "/not/there"])
        assert any(item.state == "LISTEN" for item in sockets_of(connection))
    (busy,) = [item for item in scene.processes if item.title.startswith("/usr/bin/sh")]
    assert busy.state == "R"
    assert busy.cpu_percent
    assert all("init" in item.title for item in scene.processes if item is not busy)
    assert scene.memory_bytes
    assert scene.available_bytes
    assert [path for path, _ in scene.disks] == ["/"]
    assert any(item.state == "ESTABLISHED" for item in scene.sockets)
