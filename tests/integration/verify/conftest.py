"""A deployed pair for the whole run, and the outcome of its checks."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from builder import pipeline as builder
from builder.progress import Silent
from deploy import daily
from deploy import pipeline as deployer
from deploy.lab.control import LabNode
from deploy.lab.lifecycle import lab_up
from deploy.lab.manifest import lab_manifest
from verify.report import Outcome, Report
from verify.run import run_checks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from deploy.lab.lifecycle import LabState

NOT_SHOWN_IN_THE_LAB = frozenset(
    {
        "collective.nccl_transport",
        "collective.nccl_channels",
        "collective.nccl_devices",
        "collective.netdev_is_quiet",
        "collective.rdma_carries",
        "container.devices",
        "serving.api_key",
    }
)
"""The lab has no NCCL, no RDMA and no API key; container.locked_memory depends on the machine's
limits."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The lab's two nodes with the embedded default deployed on them."""

    manifest_path: Path
    lab: LabState

    def node(self, name: str) -> LabNode:
        """Control over one node."""
        return LabNode(self.lab.spec, name)

    def verify(self, only: str | None = None) -> Report:
        """The report of the checks."""
        return run_checks(self.manifest_path, progress=Silent(), only=only)

    def lock(self) -> None:
        """Nothing; lockfile.json is the manifest's again."""
        builder.lock(self.manifest_path, Silent())

    def deploy(self) -> None:
        """Nothing; the pair runs as locked again."""
        deployer.deploy(self.manifest_path, Silent(), deployer.Wishes(older=True))

    def container(self, name: str) -> str:
        """The id of the container that runs on a node."""
        return self.node(name).run(["docker", "ps", "--quiet"]).strip()

    def inside(self, name: str, *argv: str) -> str:
        """What a command printed inside a node's container."""
        return self.node(name).run(["docker", "exec", self.container(name), *argv])


def names(report: Report, *outcomes: Outcome) -> set[str]:
    """The ids of the checks that ended so."""
    return {item.check.id for item in report.checks if item.outcome in outcomes}


def not_passed(report: Report) -> set[str]:
    """The ids of the checks that failed or could not be judged."""
    return names(report, Outcome.FAILED, Outcome.ERROR)


def locked_pair(lab: LabState, folder: Path) -> Pair:
    """The embedded default for a lab's nodes, in a folder of its own, locked and not deployed."""
    root = lab.spec.root
    shutil.copytree(root / "examples" / "lab", folder / "examples" / "lab")
    (folder / "lab").symlink_to(lab.spec.path)
    manifest_path = folder / "cluster.toml"
    text = (root / "cluster.toml").read_text()
    text = text.replace("completion_timeout_s = 20", "completion_timeout_s = 5")
    manifest_path.write_text(lab_manifest(text, lab.spec, "lab/ssh_config"))
    builder.lock(manifest_path, Silent())
    return Pair(manifest_path, lab)


@pytest.fixture(scope="session")
def _locked(lab: LabState, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return locked_pair(lab, tmp_path_factory.mktemp("pair"))


@pytest.fixture
def pair(_locked: Pair) -> Pair:
    """The pair, running as locked; what the last test broke of the nodes or the model is mended."""
    lab_up(_locked.lab.spec, Silent())
    for node in _locked.lab.nodes:
        _locked.node(node.name).restore_fabric()
    _locked.deploy()
    return _locked


@pytest.fixture
def disposable_pair(pair: Pair) -> Iterator[Pair]:
    """The pair, for tests that change what is inside its containers, which deploy cannot see."""
    yield pair
    daily.stop(pair.manifest_path, remove=True)
