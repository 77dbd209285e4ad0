"""Rules on memory, which on GB10 is the GPU's too: CUDA calls free what Linux calls free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.actions import size_text
from deploy.preflight import known, rows
from deploy.preflight.finding import Spot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.manifest import ClusterManifest, Node
    from deploy.host import Memory
    from deploy.preflight.finding import Finding
    from deploy.state import NodeState

DEFAULT_UTILIZATION: Final = 0.9
"""vLLM's own share of the GPU's memory (0.92 in some releases)."""

SWAPPED_BYTES: Final = 2**30
"""As much as may lie in swap without a word."""

DROP_CACHES: Final = "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches"


def utilization(manifest: ClusterManifest) -> float:
    """The share of memory that vLLM asks for."""
    asked = manifest.serve.option("gpu-memory-utilization")
    try:
        return DEFAULT_UTILIZATION if asked is None else float(asked)
    except ValueError:
        return DEFAULT_UTILIZATION


def gpu_memory(manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """The share of memory that vLLM asks for is free when it starts.

    vLLM compares with MemFree, which page cache lowers. While a rank of ours runs, its memory is
    counted as used and will be free; then nothing can be said.
    """
    if manifest.container.gpus != "all" or state.host is None:
        return
    spot, memory = Spot(rows.MEMORY, (node.name,)), state.host.memory
    if memory is None:
        yield spot.unknown("the node's memory could not be read", "look at /proc/meminfo there")
        return
    if any(container.running for container in state.containers):
        return
    share = utilization(manifest)
    needed = int(share * memory.total)
    expected = f"{size_text(needed)}, which is {share:g} of {size_text(memory.total)}"
    if needed > memory.available:
        yield spot.error(
            "vLLM asks for more memory than the node can free",
            expected=expected,
            found=f"{size_text(memory.available)} available",
            remedy="end what uses it on the node (ps aux --sort=-rss | head), or lower "
            "gpu-memory-utilization in [serve.args]",
        )
    elif needed > memory.free:
        yield spot.warning(
            "page cache fills memory that vLLM asks for: its check at the start reads what is free",
            expected=expected,
            found=f"{size_text(memory.free)} free, {size_text(memory.cached)} in page cache",
            remedy=f"on the node: {DROP_CACHES}",
        )


def swapped(_manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """Little lies in swap: else the node is short of memory already."""
    memory: Memory | None = state.host.memory if state.host else None
    if memory is not None and memory.swap_total - memory.swap_free > SWAPPED_BYTES:
        yield Spot(rows.SWAP, (node.name,)).warning(
            "much lies in swap: the node has been short of memory",
            found=f"{size_text(memory.swap_total - memory.swap_free)} "
            f"of {size_text(memory.swap_total)}",
            remedy="end what uses memory, then on the node: sudo swapoff -a && sudo swapon -a",
        )


def registration(manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """RDMA can register memory: neither a kernel that is known to fail at it, nor its tell."""
    host = state.host
    if host is None or len(manifest.nodes) < 2:  # noqa: PLR2004 - a single node needs no RDMA
        return
    spot = Spot(rows.KERNEL, (node.name,))
    if not host.kernel:
        yield spot.unknown("the kernel's version could not be read", "uname -r on the node")
    for item in known.BAD_KERNELS:
        if host.kernel == item.version and known.CURES_KERNELS not in host.boot_line.split():
            yield spot.error(
                item.what,
                item.remedy,
                expected=f"another kernel, or {known.CURES_KERNELS}",
                found=host.kernel,
            )
    memory = host.memory
    if memory is None or memory.cma_total is None or memory.cma_free is None:
        return
    if memory.cma_free > memory.cma_total:
        yield Spot(rows.MEMORY, (node.name,)).error(
            "the kernel's count of contiguous memory is broken: RDMA cannot register memory",
            expected=f"CmaFree up to CmaTotal, {size_text(memory.cma_total)}",
            found=f"CmaFree {size_text(memory.cma_free)}",
            remedy=known.BAD_KERNELS[0].remedy,
        )
