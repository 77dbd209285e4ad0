"""Versions known to be bad or good on GB10, each with the report it comes from, in words.

All of it is other people's experience, read in public; nothing here was measured by this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Known:
    """A version, or how versions begin, and what is known of it."""

    version: str
    what: str
    remedy: str


BAD_DRIVERS: Final = (
    Known(
        version="590.",
        # Reports of two Sparks whose ranks stood still at CUDA-graph capture until the driver was
        # taken back to 580; without graphs (--enforce-eager) they started.
        what="this branch of NVIDIA's driver stands still at CUDA-graph capture over two nodes",
        remedy="install the 580 branch on every node, or set enforce-eager = true in [serve.args]",
    ),
)

GOOD_DRIVER: Final = "580."
"""The branch that reports of working pairs name."""

BAD_KERNELS: Final = (
    Known(
        version="7.0.0-1019-nvidia",
        # MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#14, eugr/spark-vllm-docker 389 and 392:
        # ibv_reg_mr_iova2 gives ENOMEM, and /proc/meminfo shows CmaFree above CmaTotal. Booting
        # with kho=off, or kernel 6.17, cures it.
        what="with this kernel RDMA cannot register memory",
        remedy="boot it with kho=off on the kernel's command line, or install kernel 6.17",
    ),
)

CURES_KERNELS: Final = "kho=off"
"""The word of the boot line with which the kernels above work."""

GOOD_FIRMWARE: Final = "28.45.4028"
"""The NIC firmware of most working pairs that were reported. Before 2026-04 some boards ran the
second controller at PCIe x2."""

PCIE_GT_S: Final = 32.0
PCIE_WIDTH: Final = 4
"""Each half of a GB10's port is a PCIe Gen5 x4 device."""

LAUNCHERS: Final = ("vllm_node", "sparkrun_")
"""How the containers of eugr/spark-vllm-docker and of sparkrun are called, or begin."""

SHARED_MEMORY: Final = ("nccl-", "psm_", "plasma", "ray", "sem.mp-", "torch_", "vllm", "cuda.shm.")
"""How files begin that NCCL, Python's multiprocessing, Ray, PyTorch and vLLM leave in /dev/shm
when a container with --ipc=host is killed."""
