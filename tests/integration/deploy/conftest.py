"""A cluster of its own on the lab's nodes: other name, ports and model folder than anybody's."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import tomlkit

from builder import pipeline as builder
from builder.digest import digest_bytes
from builder.progress import Silent
from deploy import daily, pipeline
from deploy.lab.control import LabNode
from deploy.lab.lifecycle import lab_up
from deploy.lab.manifest import lab_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from deploy.lab.lifecycle import LabState
    from deploy.reports import DeployReport

PORT = 8100
DEADLINE_S = 60
SLOW = """#!/bin/bash
sleep "$LOAD_S"
exec ./run-cluster-node.sh "$@"
"""
NODES = ("spark-a", "spark-b")


@dataclass(frozen=True)
class Cluster:
    """A folder with manifest, lock and sources, and the nodes it is deployed to."""

    file: Path
    lab: LabState
    root: Path

    @property
    def folder(self) -> Path:
        return self.file.parent

    def node(self, name: str) -> LabNode:
        return LabNode(self.lab.spec, name)

    def change(self, table: str, **values: Any) -> None:  # noqa: ANN401 - any TOML value
        """Set values of a table of the manifest, such as `serve` or `serve.args`, and lock."""
        document = tomlkit.parse(self.file.read_text())
        target: Any = document
        for part in table.split("."):
            target = target.setdefault(part, tomlkit.table())
        for key, value in values.items():
            target[key.replace("_", "-") if table == "serve.args" else key] = value
        self.file.write_text(tomlkit.dumps(document))
        builder.lock(self.file, Silent())

    def slow(self, load_s: int = 60) -> None:
        """Lock a server that takes its time before it loads; 0 for one that does not."""
        (self.folder / "slow.sh").write_text(SLOW)
        document: Any = tomlkit.parse(self.file.read_text())
        files = document["image"]["file"]
        if len(files) == 1:
            script = "/workspace/vllm/slow.sh"
            files.append(tomlkit.item({"source": "slow.sh", "target": script, "mode": "0755"}))
            self.file.write_text(tomlkit.dumps(document))
        self.change("serve", node_script="./slow.sh")
        self.change("container.env", LOAD_S=str(load_s))

    def deploy(self) -> DeployReport:
        return pipeline.deploy(self.file, Silent())

    def containers(self) -> dict[str, list[tuple[str, str]]]:
        """The containers of the cluster by node, as (name, id), and only if all of them run.

        Without those that are kept for rollback, which must not run.
        """
        return {node.name: self._containers(node.name) for node in self.lab.spec.nodes}

    def _containers(self, node: str) -> list[tuple[str, str]]:
        label = f"label=io.sparklock.cluster={self.file.parent.name}"
        form = "{{.Names}} {{.ID}} {{.State}}"
        argv = ["docker", "ps", "--all", "--no-trunc", "--filter", label, "--format", form]
        lines = [line.split() for line in self.node(node).run(argv).splitlines()]
        kept = [line for line in lines if line[0].endswith(".old")]
        rest = [line for line in lines if line not in kept]
        assert all(state == "running" for _, _, state in rest), lines
        assert all(state == "exited" for _, _, state in kept), lines
        return sorted((name, found) for name, found, _ in rest)

    def names(self) -> dict[str, list[str]]:
        """The names of all containers of the cluster by node, without the cluster's own part."""
        label = f"label=io.sparklock.cluster={self.file.parent.name}"
        argv = ["docker", "ps", "--all", "--filter", label, "--format", "{{.Names}}"]
        begin = f"sparklock-{self.file.parent.name}-"
        return {
            node.name: sorted(n.removeprefix(begin) for n in self.node(node.name).run(argv).split())
            for node in self.lab.spec.nodes
        }

    def answers(self) -> bool:
        """Whether the head completes a prompt, asked on the node itself."""
        program = (  # no curl on a machine with nothing but what a lab needs
            "import sys, urllib.request as http\n"
            "request = http.Request(sys.argv[1], sys.argv[2].encode())\n"
            "request.add_header('Content-Type', 'application/json')\n"
            "print(http.urlopen(request).read().decode())\n"
        )
        url = f"http://127.0.0.1:{PORT}/v1/completions"
        body = '{"model": "tiny-spark", "prompt": "a", "max_tokens": 2}'
        argv = ["/usr/bin/python3", "-c", program, url, body]
        return '"choices"' in self.node(NODES[0]).run(argv)

    @contextmanager
    def deploying(self) -> Iterator[subprocess.Popen[str]]:
        """A deploy in a process and process group of its own, as in a terminal."""
        program = (
            "import sys, pathlib\n"
            "from builder.errors import SparklockError\n"
            "from builder.edges.console import progress_for\n"
            "from deploy import daily, pipeline\n"
            "try:\n"
            "    file = pathlib.Path(sys.argv[1])\n"
            "    print(pipeline.deploy(file, progress_for(quiet=False)).text())\n"
            "except SparklockError as error:\n"
            "    print(error)\n"
            "    sys.exit(error.exit_code)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program, str(self.file)],
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def wait_for_line(process: subprocess.Popen[str], words: str) -> None:
    """Read a deploy's progress up to a line with these words."""
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if words in line:
            return
    said, _ = process.communicate()
    pytest.fail(f"the deploy ended without saying {words!r}: {told} {said}")


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "deadline passed"
        time.sleep(0.1)


@pytest.fixture
def cluster(
    lab: LabState, lab_root: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """A cluster of this test's own; afterwards its containers are gone and the lab is healthy."""
    with own_cluster(lab, lab_root, tmp_path, request.node.name) as own:
        yield own


@pytest.fixture
def served(cluster: Cluster) -> Cluster:
    """A cluster whose generation 1 serves."""
    cluster.deploy()
    return cluster


@pytest.fixture
def mixed_cluster(
    mixed_lab: LabState, lab_root: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """As `cluster`; spark-a keeps images in Docker's own store, spark-b in containerd's."""
    with own_cluster(mixed_lab, lab_root, tmp_path, request.node.name) as own:
        yield own


@contextmanager
def own_cluster(
    lab: LabState, root: Path, folder: Path, test: str, *, fabric: bool = True
) -> Iterator[Cluster]:
    """The embedded default, turned to a lab and to a name, ports and model folder of its own.

    Without `fabric` the nodes have none, nor a script that wants one.
    """
    name = f"t{digest_bytes(test.encode())[-6:]}"
    file = folder / name / "cluster.toml"
    shutil.copytree(root / "examples" / "lab", folder / name / "examples" / "lab")
    shutil.copy(lab.spec.path / "ssh_config", file.parent / "ssh_config")
    document: Any = tomlkit.parse(
        lab_manifest((root / "cluster.toml").read_text(), lab.spec, "ssh_config")
    )
    document["name"] = name
    document["model"]["path"] = f"/srv/models/{name}"
    document["serve"]["port"] = PORT
    document["serve"]["master_port"] = PORT + 1
    if not fabric:
        del document["serve"]["node_script"]
        for node in document["nodes"]:
            del node["fabric"]
    file.write_text(tomlkit.dumps(document))
    builder.lock(file, Silent())
    try:
        yield Cluster(file, lab, root)
    finally:
        lab_up(lab.spec, Silent())
        daily.stop(file, remove=True)
