"""A model from a Hub to one node and from there to the other: real huggingface_hub in a container.

The Hub is a stand-in on this machine's loopback (tests/hub.py). The lab's images have no Python
packages, so the interpreter's come in by a mount, as the interpreter itself does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from typing import TYPE_CHECKING, Any

import pytest
import tomlkit

from builder import pipeline as builder
from builder.digest import digest_bytes
from builder.progress import Silent
from deploy import pipeline, weights_errors
from deploy.edges.weights import NodeWeights
from deploy.errors import PreflightError
from deploy.node_errors import NoPythonError
from deploy.weights_run import check_weights, weights
from tests.hub import REPO, REVISION, Hub, serving
from tests.integration.deploy.conftest import NODES, Cluster, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.lab
TOKEN = "hf_sparklock-test-token"  # noqa: S105 - no real one
BIG = 5_000_000
PACKAGES = "/opt/packages"
ON_THE_NODE = "/srv/packages"
ITS_OWN = "/usr/local/lib/python3.12/dist-packages"
"""Where the lab's images have the stand-in vllm."""


@pytest.fixture
def hub(lab_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """The lab's model and some files more, behind a token that this environment has."""
    folder = lab_root / "examples/lab/model"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files |= {"extra/a b [1].bin": os.urandom(BIG), "README.md": b"unwanted"}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no-login"))
    with serving(Hub(files, token=TOKEN, page=2)) as opened:
        monkeypatch.setenv("HF_ENDPOINT", opened.url)
        yield opened


@pytest.fixture
def of_the_hub(cluster: Cluster, hub: Hub) -> Cluster:
    """The cluster, its model one of the Hub, and huggingface_hub in its containers."""
    document: Any = tomlkit.parse(cluster.file.read_text())
    del document["model"]["files"]
    document["model"] |= {"repo": REPO, "revision": REVISION}
    for name in NODES:
        bring_packages(cluster.lab.spec.node(name).folder)
    document["container"]["mounts"].append({"source": ON_THE_NODE, "target": PACKAGES})
    document["container"]["env"] = {"PYTHONPATH": f"{ITS_OWN}:{PACKAGES}"}
    cluster.file.write_text(tomlkit.dumps(document))
    builder.lock(cluster.file, Silent())
    hub.asked.clear()
    hub.sent_bytes.clear()
    return cluster


def bring_packages(node_folder: Path) -> None:
    """Our installed packages on a node's /srv: it sees our checkout only where that is not private.

    As links, which take no room, where both are on one file system.
    """
    target = node_folder / ON_THE_NODE.removeprefix("/")
    if target.exists():
        return

    def bring(source: str, place: str) -> None:
        try:
            os.link(source, place)
        except OSError:
            shutil.copy2(source, place)

    shutil.copytree(sysconfig.get_path("purelib"), target, copy_function=bring)


def digests(cluster: Cluster, node: str) -> dict[str, str]:
    """The files in a node's model folder, our own among them, with their hashes."""
    folder = f"/srv/models/{cluster.file.parent.name}"
    argv = [
        "sh",
        "-c",
        f"mkdir -p {folder} && cd {folder} && find . -type f -exec sha256sum {{}} +",
    ]
    lines = cluster.node(node).run(argv).splitlines()
    found = {line[66:].removeprefix("./"): f"sha256:{line[:64]}" for line in lines}
    return {path: digest for path, digest in found.items() if path != ".sparklock/seen"}


def wanted(hub: Hub) -> dict[str, str]:
    return {p: digest_bytes(data) for p, data in hub.files.items() if p != "README.md"}


def helpers(cluster: Cluster) -> str:
    """What the nodes show of the containers that fetch."""
    argv = ["docker", "ps", "-a", "-q", "--filter", "label=io.sparklock.helper"]
    return "".join(cluster.node(name).run(argv) for name in ("spark-a", "spark-b"))


def test_a_model_is_fetched_once_and_copied_and_its_token_shows_nowhere(
    of_the_hub: Cluster, hub: Hub
) -> None:
    seen: list[str] = []
    look = (
        "docker ps -a --no-trunc; docker inspect $(docker ps -aq); cat /proc/[0-9]*/cmdline; "
        "for p in $(pgrep -f sparklock); do tr '\\0' ' ' < /proc/$p/environ; done"
    )
    hub.looked = lambda: seen.append(of_the_hub.node("spark-a").run(["sh", "-c", look]))
    told: list[str] = []

    class Told(Silent):
        def note(self, text: str) -> None:
            told.append(text)

    report = weights(of_the_hub.file, Told())
    total = sum(len(hub.files[path]) for path in wanted(hub))
    assert [node.travelled_bytes for node in report.nodes] == [total, total]
    assert hub.sent_bytes == {path: len(hub.files[path]) for path in wanted(hub)}
    assert {given for _, _, given in hub.asked} == {f"Bearer {TOKEN}"}
    assert digests(of_the_hub, "spark-a") == digests(of_the_hub, "spark-b") == wanted(hub)
    assert seen
    assert all("io.sparklock.helper" in text for text in seen), "looked while it was fetched"
    everything = [
        *seen,
        *told,
        report.text(),
        of_the_hub.file.with_name("lockfile.json").read_text(),
    ]
    assert not [text for text in everything if TOKEN in text]
    assert not helpers(of_the_hub)
    assert check_weights(of_the_hub.file).failure is None
    hub.asked.clear()
    again = weights(of_the_hub.file, Silent())
    assert [node.travelled_bytes for node in again.nodes] == [0, 0]
    assert not hub.asked
    of_the_hub.deploy()
    assert of_the_hub.answers()
    assert pipeline.plan(of_the_hub.file).up_to_date


def test_a_deploy_brings_the_model_too(of_the_hub: Cluster, hub: Hub) -> None:
    text = pipeline.plan(of_the_hub.file).text()
    assert "fetch model from the Hub" in text
    assert "copy model from spark-a" in text
    argv = ["-m", "invoke", "weights", "--check", "--json", "--file", str(of_the_hub.file)]
    done = subprocess.run(
        [sys.executable, *argv], cwd=of_the_hub.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 6, done.stderr
    found = json.loads(done.stdout)
    assert not found["complete"]
    assert [node["missing"] for node in found["nodes"]] == [sorted(wanted(hub))] * 2
    assert not hub.asked
    of_the_hub.deploy()
    assert of_the_hub.answers()
    assert digests(of_the_hub, "spark-b") == wanted(hub)


def test_a_pair_that_serves_sees_no_new_file_before_it_is_replaced(
    of_the_hub: Cluster, hub: Hub
) -> None:
    of_the_hub.deploy()
    before, running = digests(of_the_hub, "spark-b"), of_the_hub.containers()
    (big,) = [path for path in wanted(hub) if path.startswith("extra")]
    hub.revision, hub.files[big], hub.files["new.txt"] = "d" * 40, os.urandom(BIG), b"new"
    of_the_hub.change("model", revision=hub.revision)
    hub.sent_bytes.clear()
    report = weights(of_the_hub.file, Silent())
    assert all(node.staged for node in report.nodes)
    assert set(hub.sent_bytes) == {big, "new.txt"}, "what has not changed is not fetched"
    after = digests(of_the_hub, "spark-b")
    assert {p: d for p, d in after.items() if not p.startswith(".sparklock")} == before
    assert of_the_hub.containers() == running
    assert of_the_hub.answers()
    hub.asked.clear()
    of_the_hub.deploy()
    assert not hub.asked, "it was there already"
    assert of_the_hub.answers()
    assert digests(of_the_hub, "spark-a") == digests(of_the_hub, "spark-b") == wanted(hub)


def test_a_fetch_that_was_cut_or_killed_goes_on_where_it_was(of_the_hub: Cluster, hub: Hub) -> None:
    hub.cut_at = BIG // 2
    held, killed = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        killed.wait(60)

    hub.looked = hold
    program = (
        "import sys, pathlib\n"
        "from builder.progress import Silent\n"
        "from deploy.weights_run import weights\n"
        "weights(pathlib.Path(sys.argv[1]), Silent())\n"
    )
    argv = [sys.executable, "-c", program, str(of_the_hub.file)]
    with subprocess.Popen(argv, cwd=of_the_hub.root, start_new_session=True) as process:
        assert held.wait(60)
        process.send_signal(signal.SIGKILL)
    killed.set()
    hub.looked = lambda: None
    until(lambda: not helpers(of_the_hub))
    assert not set(digests(of_the_hub, "spark-a")) & set(wanted(hub)), "nothing is in place"
    weights(of_the_hub.file, Silent())
    assert digests(of_the_hub, "spark-a") == digests(of_the_hub, "spark-b") == wanted(hub)
    (big,) = [path for path in wanted(hub) if path.startswith("extra")]
    assert hub.sent_bytes[big] < BIG * 1.6, "what had come is not fetched again"


def test_nodes_without_python_copy_in_containers(
    of_the_hub: Cluster, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NodeWeights, "has_python", lambda _: False)  # every node here has one
    with pytest.raises(NoPythonError, match="inv deploy"):
        weights(of_the_hub.file, Silent())
    of_the_hub.deploy()
    assert digests(of_the_hub, "spark-a") == digests(of_the_hub, "spark-b") == wanted(hub)
    assert not helpers(of_the_hub)


@pytest.mark.slow
def test_a_copy_whose_link_is_cut_goes_on_later(of_the_hub: Cluster, hub: Hub) -> None:
    with of_the_hub.node("spark-b").cut_from("spark-a"):
        with pytest.raises(weights_errors.CopyLostError, match="inv doctor"):
            weights(of_the_hub.file, Silent())
        assert not set(digests(of_the_hub, "spark-b")) & set(wanted(hub))
    hub.asked.clear()
    weights(of_the_hub.file, Silent())
    assert not hub.asked, "what one node has is not fetched again"
    assert digests(of_the_hub, "spark-a") == digests(of_the_hub, "spark-b") == wanted(hub)


def test_wrong_bytes_are_refused_and_placed_nowhere(of_the_hub: Cluster, hub: Hub) -> None:
    hub.spoilt = frozenset(path for path in hub.files if path.startswith("extra"))
    with pytest.raises(weights_errors.WrongBytesError, match="extra"):
        weights(of_the_hub.file, Silent())
    assert not set(digests(of_the_hub, "spark-a")) & set(wanted(hub))
    hub.spoilt = frozenset()
    hub.refuse = (403, "GatedRepo")
    with pytest.raises(weights_errors.GatedModelError, match="accept"):
        weights(of_the_hub.file, Silent())
    hub.refuse = (404, "RevisionNotFound")
    with pytest.raises(weights_errors.NoSuchRevisionError, match=REVISION):
        weights(of_the_hub.file, Silent())
    assert not helpers(of_the_hub)
    hub.refuse = None
    weights(of_the_hub.file, Silent())
    assert digests(of_the_hub, "spark-b") == wanted(hub), "the remedy is to run it again"


def test_an_image_without_the_library_is_told(of_the_hub: Cluster) -> None:
    of_the_hub.change("container.env", PYTHONPATH=ITS_OWN)
    with pytest.raises(weights_errors.NoHubLibraryError, match="hf download"):
        weights(of_the_hub.file, Silent())


def test_a_disk_that_is_too_small_is_told_before_anything(of_the_hub: Cluster, hub: Hub) -> None:
    folder = f"/srv/models/{of_the_hub.file.parent.name}"
    of_the_hub.node("spark-b").run(["mkdir", "-p", folder])
    with (
        of_the_hub.node("spark-b").small_disk(folder, 4),
        pytest.raises(PreflightError, match="too little free space"),
    ):
        weights(of_the_hub.file, Silent())
    assert not hub.asked
