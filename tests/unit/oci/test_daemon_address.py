"""Which engine Docker's own settings name, and what is said when there is none."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
from typing import TYPE_CHECKING

import pytest

from builder.edges.daemon_api import local_engine
from builder.edges.daemon_errors import EngineAddressError, EngineDeniedError, NoEngineError
from tests.fake_engine import NAME, graph_driver
from tests.unit.oci.archives import Published, file, tar_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fake_engine import FakeEngine

PLACE = "docker:base"


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeEngine]:
    published = Published()
    published.image(tar_of(file("a")))
    with graph_driver(tmp_path / "engine.sock", published) as found:
        yield found


def write_context(folder: Path, name: str, address: str) -> None:
    meta = folder / "docker" / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    meta.mkdir(parents=True)
    endpoints = {"docker": {"Host": address, "SkipTLSVerify": False}}
    document = {"Name": name, "Metadata": {}, "Endpoints": endpoints}
    (meta / "meta.json").write_text(json.dumps(document))
    (folder / "docker" / "config.json").write_text("{}")


def found_id() -> str:
    with local_engine(PLACE) as opened:
        image = opened.image(NAME)
        assert image is not None
        return image.id


def test_the_address_of_the_environment_counts(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_context(tmp_path, "other", "unix:///nowhere")
    monkeypatch.setenv("DOCKER_CONTEXT", "other")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.path}")
    assert found_id() == engine.id


def test_a_context_is_named_by_the_environment(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_context(tmp_path, "mine", f"unix://{engine.path}")
    monkeypatch.setenv("DOCKER_CONTEXT", "mine")
    assert found_id() == engine.id


def test_a_context_is_named_by_dockers_configuration(engine: FakeEngine, tmp_path: Path) -> None:
    write_context(tmp_path, "mine", f"unix://{engine.path}")
    (tmp_path / "docker" / "config.json").write_text('{"currentContext": "mine"}')
    assert found_id() == engine.id


def test_without_settings_it_is_dockers_usual_socket() -> None:
    if os.path.exists("/var/run/docker.sock"):  # noqa: PTH110 - the client's own path
        pytest.skip("an engine of this machine's own may answer")
    with pytest.raises(NoEngineError) as caught, local_engine(PLACE):
        pass
    assert caught.value.exit_code == 4
    (message,) = caught.value.messages
    assert message.place == PLACE
    assert message.expected == "an engine at unix:///var/run/docker.sock"
    assert message.found == "No such file or directory"


def test_an_engine_that_has_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "dead.sock"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/dead.sock")
    with pytest.raises(NoEngineError) as caught, local_engine(PLACE):
        pass
    assert caught.value.reason == "Connection refused"


def test_a_socket_that_is_not_ours_to_use_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", refused)
    with pytest.raises(EngineDeniedError) as caught, local_engine(PLACE):
        pass
    assert "usermod -aG docker" in caught.value.messages[0].remedy


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"DOCKER_HOST": "ssh://me@spark-a"}, "it is behind ssh"),
        ({"DOCKER_HOST": "ssh://me:hush@spark-a"}, "ssh://me:...@spark-a"),
        ({"DOCKER_HOST": "tcp://me:hush@h:1"}, "tcp://me:...@h:1"),
        ({"DOCKER_HOST": "http+nonsense://x"}, "Invalid bind address"),
        ({"DOCKER_HOST": "tcp://host"}, "port is required"),
        ({"DOCKER_HOST": "tcp://h:1", "DOCKER_CERT_PATH": "/nowhere"}, ""),
        ({"DOCKER_CONTEXT": "absent"}, "there is no such context"),
        ({"DOCKER_CONTEXT": "damaged"}, "corrupted"),
    ],
)
def test_settings_that_name_no_engine_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], reason: str
) -> None:
    write_context(tmp_path, "damaged", "")
    (path,) = (tmp_path / "docker").rglob("meta.json")
    path.write_text("{")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(EngineAddressError) as caught, local_engine(PLACE):
        pass

    assert reason in caught.value.reason
    assert "hush" not in str(caught.value)
    assert caught.value.exit_code == 4
