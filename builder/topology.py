"""Ranks, their places in the fabric, and the environment that each rank's container needs.

One function gives every rank's environment, so that ranks differ only in what is a node's own:
address, interface and RDMA devices. Names are per node because two Sparks may be cabled through
different ports, and one name sent to all then leaves a rank on the wrong network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.privileges import has_rdma

if TYPE_CHECKING:
    from collections.abc import Mapping

    from builder.manifest import ClusterManifest, Fabric, Node

ALWAYS: Final[Mapping[str, str]] = {
    # The model is on the node and pinned by hash; a start must not depend on the Hub, nor may a
    # moved branch there change what is served.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # Ray's monitor kills workers at 95 % of memory, and on GB10 that is the GPU's memory too, which
    # a loaded model fills on purpose. Unread unless the image starts Ray.
    "RAY_memory_monitor_refresh_ms": "0",
}
"""What every container gets, on one node or on many."""

ACROSS_NODES: Final[Mapping[str, str]] = {
    # With the plugin named, NCCL fails when no RDMA device can be used; unnamed, it takes TCP and
    # says so in its log alone.
    "NCCL_NET": "IB",
    # With 1, NCCL does not look for RDMA at all; a value that the image brings must not win.
    "NCCL_IB_DISABLE": "0",
    # NCCL then binds its threads by the GPU's place alone, whatever cores the process was given;
    # both known launchers for Spark set it.
    "NCCL_IGNORE_CPU_AFFINITY": "1",
}
"""What every container of several nodes gets, when RDMA devices are given to it.

NCCL_IB_GID_INDEX is absent on purpose: the index moves with the addresses of an interface, also
across a reboot, and differs per device; NCCL finds the right one by itself.
"""

WITHOUT_RDMA: Final[Mapping[str, str]] = {
    # A manifest without RDMA devices means TCP; the plugin for RDMA would find none and fail.
    "NCCL_NET": "Socket",
    "NCCL_IB_DISABLE": "1",
    "NCCL_IGNORE_CPU_AFFINITY": "1",
}
"""What every container of several nodes gets otherwise."""

OF_ONE_NODE: Final = frozenset(
    {
        "VLLM_HOST_IP",
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",
        "MN_IF_NAME",
        "OMPI_MCA_btl_tcp_if_include",
        "NCCL_IB_HCA",
        "UCX_NET_DEVICES",
    }
)
"""Variables whose right value is a node's own, so that none may be set for all nodes at once."""


CACHE_ROOT: Final = "/var/cache/sparklock"
"""Where the volume for compile caches stands in every container."""

CACHES: Final[Mapping[str, str]] = {
    "VLLM_CACHE_ROOT": f"{CACHE_ROOT}/vllm",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_ROOT}/torchinductor",
    "TRITON_CACHE_DIR": f"{CACHE_ROOT}/triton",
    "TILELANG_CACHE_DIR": f"{CACHE_ROOT}/tilelang",
    "FLASHINFER_WORKSPACE_BASE": f"{CACHE_ROOT}/flashinfer",
    # What the driver compiles from PTX: the kernels of images that were not built for GB10.
    "CUDA_CACHE_PATH": f"{CACHE_ROOT}/cuda",
}
"""Where everything that compiles at a start keeps what it made."""

CACHE_FOLDERS: Final = tuple(path.rpartition("/")[2] for path in sorted(CACHES.values()))

UNKEPT: Final[Mapping[str, str]] = {
    # Tactics that each rank measured for itself: ranks that find different ones, because one was
    # killed before it had written its own, wait for each other in vain.
    "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR": "/tmp/flashinfer-autotune",  # noqa: S108 - in a container
}
"""What of it several nodes never keep from one container to the next."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of the server and the node it runs on.

    `master_addr` is where all ranks meet: the head's fabric address, or None on a single node.
    """

    node_rank: int
    world_size: int
    node: Node
    master_addr: str | None

    @property
    def is_head(self) -> bool:
        """Whether this rank serves the API."""
        return self.node_rank == 0

    @property
    def host_ip(self) -> str | None:
        """The node's own fabric address."""
        return None if self.node.fabric is None else str(self.node.fabric.address)

    @property
    def hcas(self) -> tuple[str, ...]:
        """The node's RDMA devices."""
        return () if self.node.fabric is None else self.node.fabric.hcas


def ranks(manifest: ClusterManifest) -> tuple[Rank, ...]:
    """Every rank, head first: GB10 has one GPU, so a node is a rank."""
    fabric = manifest.head.fabric
    meeting = str(fabric.address) if fabric is not None and len(manifest.nodes) > 1 else None
    return tuple(
        Rank(node_rank=rank, world_size=manifest.world_size, node=node, master_addr=meeting)
        for rank, node in enumerate(manifest.nodes)
    )


def keeps_caches(manifest: ClusterManifest) -> bool:
    """Whether what a start compiles is kept for later containers."""
    return manifest.container.caches != "off"


def container_environment(manifest: ClusterManifest, node: Node) -> dict[str, str]:
    """The environment of one node's container by name: ours, then [container].env, then the node's.

    A single node talks to nobody, so it gets no fabric variable, even when it has a fabric: a
    one-node run must not demand RDMA.
    """
    env = dict(ALWAYS)
    if keeps_caches(manifest):
        env |= CACHES
        env |= UNKEPT if len(manifest.nodes) > 1 else {}
    if node.fabric is not None and len(manifest.nodes) > 1:
        rdma = has_rdma(manifest)
        env |= ACROSS_NODES if rdma else WITHOUT_RDMA
        env |= _own_place(node.fabric, rdma=rdma)
    env |= manifest.container.env
    env |= node.env
    return dict(sorted(env.items()))


def _own_place(fabric: Fabric, *, rdma: bool) -> dict[str, str]:
    devices = {
        # NCCL matches names by prefix unless they begin with '='. With it, an interface or device
        # that is not there is never replaced by one whose name begins alike.
        "NCCL_IB_HCA": f"={','.join(fabric.hcas)}",
        # UCX wants the port too; an RDMA device of a Spark has only port 1.
        "UCX_NET_DEVICES": ",".join(f"{hca}:1" for hca in fabric.hcas),
    }
    return {
        **(devices if rdma else {"UCX_NET_DEVICES": fabric.netdev}),
        # vLLM's message queues advertise this address. Unset, they take the default route's, which
        # is the LAN or the Wi-Fi, and both ranks load their weights and then wait in silence.
        "VLLM_HOST_IP": str(fabric.address),
        "NCCL_SOCKET_IFNAME": f"={fabric.netdev}",
        # Gloo otherwise binds to what the host name resolves to, which is often 127.0.1.1.
        "GLOO_SOCKET_IFNAME": fabric.netdev,
        "TP_SOCKET_IFNAME": fabric.netdev,
        "MN_IF_NAME": fabric.netdev,
        "OMPI_MCA_btl_tcp_if_include": fabric.netdev,
    }
