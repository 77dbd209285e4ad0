"""The invented RoCE devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.lab import fabric
from deploy.lab.spec import LabSpec

HALVES = LabSpec(root=Path("/repository")).nodes[0].halves
PORT = "rocep1s0f0/ports/1"


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    folder = tmp_path / "infiniband"
    fabric.write_devices(folder, HALVES)
    return folder


def test_index_3_is_roce_v2_over_ipv4_on_the_halfs_own_netdev(devices: Path) -> None:
    for half in HALVES:
        port = devices / half.hca / "ports" / "1"
        assert (port / "gids/3").read_text() == half.ipv4_gid + "\n"
        assert (port / "gid_attrs/types/3").read_text() == "RoCE v2\n"
        assert (port / "gid_attrs/ndevs/3").read_text() == half.netdev + "\n"


def test_an_unused_gid_is_zero_and_has_no_type(devices: Path) -> None:
    assert (devices / PORT / "gids/4").read_text() == fabric.UNUSED_GID + "\n"
    assert not (devices / PORT / "gid_attrs/types/4").exists()


def test_each_device_names_its_netdev(devices: Path) -> None:
    names = {path.parts[-4]: path.name for path in devices.glob("*/device/net/*")}
    assert names == {"rocep1s0f0": "enp1s0f0np0", "roceP2p1s0f0": "enP2p1s0f0np0"}


def test_writing_again_mends_a_port_and_keeps_its_counters(devices: Path) -> None:
    fabric.set_port(devices, "rocep1s0f0", "state", "1: DOWN")
    fabric.add_to_counters(devices, "rocep1s0f0", {"port_xmit_data": 5})
    fabric.add_to_counters(devices, "rocep1s0f0", {"port_xmit_data": 7})
    fabric.remove_device(devices, "roceP2p1s0f0")
    assert (devices / PORT / "state").read_text() == "1: DOWN\n"
    assert sorted(path.name for path in devices.iterdir()) == ["rocep1s0f0"]

    fabric.write_devices(devices, HALVES)
    assert (devices / PORT / "state").read_text() == "4: ACTIVE\n"
    assert (devices / PORT / "counters/port_xmit_data").read_text() == "12\n"
    assert sorted(path.name for path in devices.iterdir()) == ["roceP2p1s0f0", "rocep1s0f0"]


def test_no_other_file_is_left_beside_a_written_one(devices: Path) -> None:
    fabric.set_port(devices, "rocep1s0f0", "state", "1: DOWN")
    names = {str(path.relative_to(devices)) for path in devices.rglob("*") if path.is_file()}
    expected = {*fabric.device_files(HALVES[0]), *fabric.counter_files()}
    assert names == {f"{half.hca}/{name}" for half in HALVES for name in expected}
    assert list(devices.parent.iterdir()) == [devices]
