"""The invented RoCE devices of a node, as files that are bound over its /sys/class/infiniband.

No RDMA hardware is here. The values below are stand-ins that look like a healthy GB10 port, so
that whatever reads sysfs can be tried, and a test can move them. They prove nothing of a real link.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deploy.lab.spec import Half

STANDIN_DEVICE: Final = {
    "fw_ver": "28.45.4028",
    "hw_rev": "0x0",
    "node_desc": "sparklock stand-in",
    "device/current_link_speed": "32.0 GT/s PCIe",
    "device/current_link_width": "4",
}
STANDIN_PORT: Final = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "200 Gb/sec (2X NDR)",
    "link_layer": "Ethernet",
}
COUNTERS: Final = (
    "link_downed",
    "port_rcv_data",
    "port_rcv_errors",
    "port_xmit_data",
    "port_xmit_wait",
    "symbol_error",
)
HW_COUNTERS: Final = (
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
)
UNUSED_GID: Final = "0000:0000:0000:0000:0000:0000:0000:0000"
GID_SLOTS: Final = 8
"""How many slots are shown; a real device has 255."""


def gid_table(half: Half) -> tuple[tuple[str, str], ...]:
    """GID and type per index, as mlx5 fills them: link-local, then IPv4, each as v1 and as v2."""
    return tuple(
        (gid, kind)
        for gid in (half.link_local_gid, half.ipv4_gid)
        for kind in ("IB/RoCE v1", "RoCE v2")
    )


def device_files(half: Half) -> dict[str, str]:
    """The files of one device below its folder, counters left out; each text without newline.

    The type and netdev of an unused GID slot cannot be read on a real device; here the files are
    absent.
    """
    table = gid_table(half)
    gids = [gid for gid, _ in table] + [UNUSED_GID] * (GID_SLOTS - len(table))
    port = dict(STANDIN_PORT)
    port |= {f"gids/{index}": gid for index, gid in enumerate(gids)}
    port |= {f"gid_attrs/types/{index}": kind for index, (_, kind) in enumerate(table)}
    port |= {f"gid_attrs/ndevs/{index}": half.netdev for index in range(len(table))}
    return STANDIN_DEVICE | {f"ports/1/{name}": text for name, text in port.items()}


def write_devices(folder: Path, halves: tuple[Half, ...]) -> None:
    """Nothing; every device is there and healthy afterwards, and counters keep their values."""
    for half in halves:
        device = folder / half.hca
        (device / "device" / "net" / half.netdev).mkdir(parents=True, exist_ok=True)
        for name, text in device_files(half).items():
            _write(folder, f"{half.hca}/{name}", text)
        for name in counter_files():
            if not (device / name).exists():
                _write(folder, f"{half.hca}/{name}", "0")


def counter_files() -> tuple[str, ...]:
    """The counters below a device's folder."""
    plain = (f"ports/1/counters/{name}" for name in COUNTERS)
    return (*plain, *(f"ports/1/hw_counters/{name}" for name in HW_COUNTERS))


def set_port(folder: Path, hca: str, name: str, text: str) -> None:
    """Nothing; one file of the device's port 1 holds the text."""
    _write(folder, f"{hca}/ports/1/{name}", text)


def set_device(folder: Path, hca: str, name: str, text: str) -> None:
    """Nothing; one file of the device, such as `fw_ver`, holds the text."""
    _write(folder, f"{hca}/{name}", text)


def add_to_counters(folder: Path, hca: str, increments: Mapping[str, int]) -> None:
    """Nothing; the named counters have grown. Data counters are in units of 4 bytes."""
    for name, increment in increments.items():
        path = f"{hca}/ports/1/counters/{name}"
        _write(folder, path, str(int((folder / path).read_text()) + increment))


def remove_device(folder: Path, hca: str) -> None:
    """Nothing; the device is gone from sysfs."""
    shutil.rmtree(folder / hca)


def _write(folder: Path, name: str, text: str) -> None:
    """Nothing; readers see the old text or the new one, and no other file beside it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=folder.parent, delete=False) as temporary:
        temporary.write(text + "\n")
    complete = Path(temporary.name)
    complete.chmod(0o444)
    complete.replace(path)
