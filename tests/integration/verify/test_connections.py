"""ssh to the nodes of a lab: one connection per node, and every node that cannot be reached."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tomlkit

from builder.manifest import ClusterManifest
from builder.progress import Silent
from deploy.lab.control import LabNode
from deploy.lab.lifecycle import lab_up
from deploy.lab.manifest import lab_manifest
from tests.unit.verify import samples
from verify.edges.api import Api
from verify.edges.ssh import Connections
from verify.errors import NodesNotReadyError, UnreachableNodeError
from verify.expected import expect
from verify.observe import ObservedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deploy.lab.lifecycle import LabState

pytestmark = pytest.mark.lab


@pytest.fixture
def manifest(lab: LabState) -> ClusterManifest:
    """The repository's manifest, turned to the lab of this test run."""
    text = lab_manifest((lab.spec.root / "cluster.toml").read_text(), lab.spec)
    return ClusterManifest.model_validate_json(json.dumps(tomlkit.parse(text).unwrap()))


@pytest.fixture
def broken(lab: LabState) -> Iterator[LabNode]:
    """A node to break; mended afterwards."""
    yield LabNode(lab.spec, "spark-b")
    lab_up(lab.spec, Silent())


def observed(manifest: ClusterManifest, connections: Connections) -> ObservedCluster:
    expected = expect(manifest, samples.lock(), samples.LOCK_DIGEST)
    return ObservedCluster(expected, manifest.nodes, connections.host)


def test_commands_run_on_their_own_node(lab: LabState, manifest: ClusterManifest) -> None:
    with Connections(manifest, lab.spec.root) as connections:
        names = observed(manifest, connections).each(lambda node: node.run("hostname").strip())
    assert names == {"spark-a": "spark-a", "spark-b": "spark-b"}


def test_arguments_arrive_as_they_are(lab: LabState, manifest: ClusterManifest) -> None:
    word = "a 'b' \"c\" $HOME %s * \\ ; exit 7"
    with Connections(manifest, lab.spec.root) as connections:
        node = observed(manifest, connections).nodes[0]
        assert node.run("printf", "%s", word) == word


def test_nothing_is_left_behind(lab: LabState, manifest: ClusterManifest) -> None:
    with Connections(manifest, lab.spec.root) as connections:
        control = connections.forward(manifest.head, "127.0.0.1", 1)
        assert control.parent.is_dir()
        assert any(str(control.parent) in line for line in command_lines())
    assert not control.parent.exists()
    deadline = time.monotonic() + 10  # a master says goodbye to its server before it ends
    while any(str(control.parent) in line for line in command_lines()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def command_lines() -> list[str]:
    return [cmdline(entry.path) for entry in os.scandir("/proc") if entry.name.isdigit()]


def cmdline(folder: str) -> str:
    try:
        return Path(folder, "cmdline").read_bytes().decode(errors="replace")
    except OSError:  # it ended meanwhile
        return ""


def test_a_master_that_was_killed_is_not_waited_for(
    lab: LabState, manifest: ClusterManifest
) -> None:
    with Connections(manifest, lab.spec.root) as connections:
        folder = connections.forward(manifest.head, "127.0.0.1", 1).parent
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and str(folder) in cmdline(entry.path):
                os.kill(int(entry.name), signal.SIGKILL)
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert not folder.exists()


def test_the_api_is_reached_through_the_head(lab: LabState, manifest: ClusterManifest) -> None:
    folder = LabNode(lab.spec, "spark-a").root / "run" / "api"
    folder.mkdir(exist_ok=True)
    (folder / "version").write_text('{"version": "from spark-a"}')
    start = (
        "python3 -m http.server --bind 127.0.0.1 --directory /run/api 8765 >/run/api/log 2>&1 & "
        "until grep -q Serving /run/api/log; do sleep 0.1; done; echo $!"
    )
    with Connections(manifest, lab.spec.root) as connections:
        node = observed(manifest, connections).nodes[0]
        pid = node.run("sh", "-c", start.replace("python3", "python3 -u")).strip()
        try:
            api = Api(connections.forward(manifest.head, "127.0.0.1", 8765))
            assert api.get("/version", deadline_s=10) == {"version": "from spark-a"}
        finally:
            node.run("kill", pid)


def test_every_node_that_cannot_be_reached_is_named(
    lab: LabState, manifest: ClusterManifest, broken: LabNode
) -> None:
    broken.power_off()
    with pytest.raises(NodesNotReadyError) as caught, Connections(manifest, lab.spec.root):
        pass
    (message,) = caught.value.messages
    assert message.place == "node spark-b"
    assert caught.value.exit_code == 5


def test_another_host_key_is_refused(
    lab: LabState, manifest: ClusterManifest, broken: LabNode
) -> None:
    broken.change_host_key()
    with pytest.raises(NodesNotReadyError, match="Host key verification failed"):
        Connections(manifest, lab.spec.root).__enter__()
    broken.restore_host_key()


def test_a_connection_that_is_lost_meanwhile_is_a_fault_of_the_node(
    lab: LabState, manifest: ClusterManifest, broken: LabNode
) -> None:
    with Connections(manifest, lab.spec.root) as connections:
        node = observed(manifest, connections).node("spark-b")
        node.run("true")
        broken.stop_sshd()
        with pytest.raises(UnreachableNodeError, match="spark-b"):
            node.run("true")


def test_an_engine_that_is_down_is_a_fault_of_the_node(
    lab: LabState, manifest: ClusterManifest, broken: LabNode
) -> None:
    broken.stop_engine()
    with (
        Connections(manifest, lab.spec.root) as connections,
        pytest.raises(NodesNotReadyError, match="engine does not answer") as caught,
    ):
        observed(manifest, connections).probe()
    assert [message.place for message in caught.value.messages] == ["node spark-b"]
