"""Labs for the integration tests: never the user's own, and never the same for two test runs."""

from __future__ import annotations

import shutil
import socket
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy.lab import network
from deploy.lab.lifecycle import LabState, lab_down, lab_up
from deploy.lab.requirements import missing_requirements
from deploy.lab.spec import LabSpec
from deploy.lab.trixie import debian13_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SLOTS = 60


@pytest.fixture(scope="session")
def lab_root() -> Path:
    """The repository; skips, aloud, on a machine that cannot carry a lab."""
    missing = missing_requirements()
    if missing:
        pytest.skip("no lab on this machine, missing: " + "; ".join(m.what for m in missing))
    return ROOT


@pytest.fixture(scope="session")
def lab(lab_root: Path) -> Iterator[LabState]:
    """A pair of nodes for the whole run. Who breaks it calls `lab_up(lab.spec, ...)` afterwards."""
    with lab_slot(lab_root) as spec:
        try:
            yield lab_up(spec, Silent())
        finally:
            lab_down(spec)


@pytest.fixture(scope="session")
def mixed_lab(lab_root: Path) -> Iterator[LabState]:
    """A pair with both image stores: spark-a Docker's own, spark-b containerd's.

    The first one on a machine makes a Debian 13 tree, which takes about a minute.
    """
    if shutil.which("mmdebstrap") is None:
        pytest.skip("no node with containerd's image store on this machine, missing: mmdebstrap")
    tree = debian13_tree(lab_root / ".sparklock" / "cache", Silent())
    with lab_slot(lab_root) as spec:
        try:
            yield lab_up(
                replace(spec, engines=("machine", "containerd-store"), tree=tree), Silent()
            )
        finally:
            lab_down(spec)


@pytest.fixture
def lab_spec(lab_root: Path) -> Iterator[LabSpec]:
    """The description of a lab that only this test has; it is down before and after."""
    with lab_slot(lab_root) as spec:
        try:
            yield spec
        finally:
            lab_down(spec)


@contextmanager
def lab_slot(root: Path) -> Iterator[LabSpec]:
    """A lab name with subnets that nobody else on the machine uses meanwhile.

    A bound abstract socket is the lock: the kernel gives it back when the test run dies.
    """
    for slot in range(SLOTS):
        with socket.socket(socket.AF_UNIX) as lock:
            try:
                lock.bind(f"\0sparklock-test-lab-{slot}")
            except OSError:
                continue
            spec = LabSpec(
                root=root,
                name=f"t{slot}",
                folder=f".sparklock/test-lab-{slot}",
                subnets=(100 + 2 * slot, 101 + 2 * slot),
            )
            lab_down(spec)  # a killed run may have left one
            if network.link_names().isdisjoint(spec.uplinks):
                yield spec
                return
    pytest.fail(f"all {SLOTS} test labs are in use")
