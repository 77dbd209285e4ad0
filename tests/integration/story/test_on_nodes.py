"""The same manifests on two nodes: what would have happened, and what does happen.

The refusals are forced past: the engines and the servers then say, in their own words, what
`inv build` said before any container.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builder.labels import CLUSTER
from deploy.lab.control import LabNode
from deploy.lab.errors import LabCommandError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from deploy.lab.lifecycle import LabState
    from tests.integration.story.conftest import Examples

pytestmark = pytest.mark.lab

FAILED = 5
LAUNCHER = ("./run-cluster-node.sh", "--role", "head")


@pytest.fixture
def nodes(lab: LabState) -> list[LabNode]:
    return [LabNode(lab.spec, node.name) for node in lab.spec.nodes]


def _nothing_is_left(nodes: list[LabNode]) -> bool:
    argv = ["docker", "ps", "--all", "--quiet", "--filter", f"label={CLUSTER}=collision"]
    return not any(node.run(argv) for node in nodes)


def _image(examples: Examples, name: str) -> str:
    """The tag that a deployment gave the image on every node."""
    digest = json.loads(examples.lock(name).read_bytes())["outputs"]["manifest_digest"]
    return f"sparklock/collision:{digest.removeprefix('sha256:')[:12]}"


def test_the_donor_with_its_entrypoint_cleared_finds_no_launcher(
    on_the_lab: Examples, nodes: list[LabNode], force_lock: Callable[[Path], None]
) -> None:
    force_lock(on_the_lab.manifest("donor"))
    ended = on_the_lab.inv("deploy", "donor")
    assert ended.returncode == FAILED, ended.stderr
    # sparklock has the engine's init start the command, so it is init that says it
    assert "exec ./run-cluster-node.sh failed: No such file or directory" in ended.stderr
    assert "rolled back" in ended.stderr
    assert _nothing_is_left(nodes)


def test_started_as_a_launcher_does_it_is_the_runtime_that_finds_none(
    on_the_lab: Examples, nodes: list[LabNode], force_lock: Callable[[Path], None]
) -> None:
    force_lock(on_the_lab.manifest("donor"))
    on_the_lab.inv("deploy", "donor")  # its image stays on the nodes
    launched = ("--entrypoint=", _image(on_the_lab, "donor"), *LAUNCHER)
    for node in nodes:
        with pytest.raises(LabCommandError) as caught:
            node.run(["docker", "run", "--rm", "--network=host", *launched])
        assert caught.value.status == 127
        assert (
            'exec: "./run-cluster-node.sh": stat ./run-cluster-node.sh: no such file or directory'
            in caught.value.stderr
        )


def test_the_donor_with_its_own_entrypoint_ignores_the_launcher(
    on_the_lab: Examples, nodes: list[LabNode], force_lock: Callable[[Path], None]
) -> None:
    on_the_lab.keep_the_donors_entrypoint()
    force_lock(on_the_lab.manifest("donor"))
    ended = on_the_lab.inv("deploy", "donor")
    assert ended.returncode == FAILED, ended.stderr
    # nobody looks for the script: its options end up at the server that the entrypoint starts
    assert "o such file or directory" not in ended.stderr
    assert "vllm: error: unrecognized arguments: --role" in ended.stderr, ended.stderr
    assert _nothing_is_left(nodes)


def test_the_base_alone_does_not_know_the_model(
    on_the_lab: Examples, nodes: list[LabNode], force_lock: Callable[[Path], None]
) -> None:
    force_lock(on_the_lab.manifest("base"))
    ended = on_the_lab.inv("deploy", "base")
    assert ended.returncode == FAILED, ended.stderr
    assert "Model architectures ['TinySparkForCausalLM'] are not supported for now" in ended.stderr
    assert _nothing_is_left(nodes)


def test_the_hybrid_serves_and_is_proven(on_the_lab: Examples) -> None:
    locked = on_the_lab.inv("lock", "hybrid")
    assert locked.returncode == 0, locked.stderr
    deployed = on_the_lab.inv("deploy", "hybrid", "--json")
    assert deployed.returncode == 0, deployed.stderr
    assert json.loads(deployed.stdout)["answer"]
    again = on_the_lab.inv("deploy", "hybrid")
    assert again.returncode == 0, again.stderr
    assert "up to date" in again.stdout
    verified = on_the_lab.inv("verify", "hybrid")
    assert verified.returncode == 0, verified.stdout + verified.stderr
