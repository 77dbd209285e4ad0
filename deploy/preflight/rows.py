"""The rows of doctor's table, by the names that findings and JSON call them."""

from __future__ import annotations

from typing import Final

SSH: Final = "ssh"
ENGINE: Final = "engine"
PROCESSOR: Final = "processor"
MACHINE: Final = "machine"
KERNEL: Final = "kernel"
GPU: Final = "GPU"
DRIVER: Final = "GPU driver"
MEMORY: Final = "memory"
SWAP: Final = "swap"
CLOCK: Final = "clock"
IMAGE: Final = "image"
MODEL: Final = "model"
PATHS: Final = "paths"
PORTS: Final = "ports"
MEMLOCK: Final = "memlock"
LEFTOVERS: Final = "leftovers"
TIMEOUTS: Final = "time-outs"
FIRMWARE: Final = "NIC firmware"
LINKS: Final = "to the peers"
LOCK: Final = "lock"


def fabric_row(index: int) -> str:
    """The row of a half of the fabric port, counted from 0."""
    return f"fabric {index + 1}"


def hca_row(index: int) -> str:
    """The row of an RDMA device of the manifest, counted from 0."""
    return f"RDMA {index + 1}"
