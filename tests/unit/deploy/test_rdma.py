from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from deploy.launch_errors import RdmaFileMissingError
from deploy.rdma import PROGRAM, rdma_device_paths

if TYPE_CHECKING:
    from pathlib import Path

HCAS = ("rocep1s0f1", "roceP2p1s0f1")


def test_only_the_listed_devices_and_the_connection_manager_are_given() -> None:
    told = "uverbs0 rocep1s0f0\nuverbs1 rocep1s0f1\nuverbs3 roceP2p1s0f1\nrdma_cm\n"
    assert rdma_device_paths("a", HCAS, told) == (
        "/dev/infiniband/rdma_cm",
        "/dev/infiniband/uverbs1",
        "/dev/infiniband/uverbs3",
    )


@pytest.mark.parametrize("told", ["", "rdma_cm\n", "uverbs0 rocep1s0f0\nuverbs1 rocep1s0f1\n"])
def test_a_device_without_a_file_is_an_error_with_its_place(told: str) -> None:
    with pytest.raises(RdmaFileMissingError) as caught:
        rdma_device_paths("spark-a", HCAS, told)
    assert caught.value.messages[-1].place == "node spark-a, roceP2p1s0f1"
    assert "rdma_cm" not in caught.value.known


def test_the_program_tells_what_sysfs_and_dev_hold(tmp_path: Path) -> None:
    verbs, devices = tmp_path / "verbs", tmp_path / "dev"
    for name, hca in (("uverbs0", "rocep1s0f0"), ("uverbs1", "rocep1s0f1")):
        (verbs / name).mkdir(parents=True)
        (verbs / name / "ibdev").write_text(f"{hca}\n")
    (verbs / "abi_version").write_text("1\n")
    devices.mkdir()
    for name in ("uverbs1", "rdma_cm"):  # any character device will do
        (devices / name).symlink_to("/dev/null")
    assert told(verbs, devices) == "uverbs1 rocep1s0f1\nrdma_cm\n"
    assert told(tmp_path / "none", tmp_path / "none") == ""


def told(verbs: Path, devices: Path) -> str:
    argv = ["sh", "-c", PROGRAM, "sh", str(verbs), str(devices)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
