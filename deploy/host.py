"""A node's machine as it was observed: values only. What a node does not tell is None or empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Memory:
    """Lines of /proc/meminfo, in bytes; the area for contiguous memory is None where none is."""

    total: int
    free: int
    available: int
    cached: int = 0
    swap_total: int = 0
    swap_free: int = 0
    cma_total: int | None = None
    cma_free: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPUs as the kernel's driver tells of them.

    `driver` is its version, empty when none is loaded. `hook` says that NVIDIA's hook for
    containers is installed, which Docker takes for a request for GPUs.
    """

    driver: str = ""
    count: int = 0
    hook: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """A process; `container` is the id of the container it runs in, empty outside of one."""

    pid: int
    name: str
    container: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that listens on a port."""

    port: int
    process: str
    pid: int


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A node's machine.

    `clock_ahead_s` is how far its clock is before the controller's, `clock_within_s` how sure that
    is. `memlock` says whether the engine can lift a container's limit of locked memory. `missing`
    are paths that the manifest names and the node lacks. `model_free_bytes` are of the disk that
    the model's folder is on or will be. `shm` are the files in /dev/shm, as (name, bytes).
    `strays` are processes of Ray and vLLM, `holders` who listens on the ports of the manifest;
    without `sockets_known` the table of listening sockets could not be read.
    """

    product: str = ""
    kernel: str = ""
    boot_line: str = ""
    memory: Memory | None = None
    clock_ahead_s: float | None = None
    clock_within_s: float = 0.0
    gpu: Gpu = Gpu()
    memlock: bool | None = None
    missing: Sequence[str] = ()
    model_free_bytes: int | None = None
    shm: Sequence[tuple[str, int]] = ()
    strays: Sequence[Process] = ()
    sockets_known: bool = True
    holders: Sequence[Holder] = ()


@dataclass(frozen=True, slots=True)
class OtherContainer:
    """A container that is not this cluster's; `cluster` is that of another sparklock cluster.

    `mounts` are the node's own folders and files that it has.
    """

    id: str
    name: str
    cluster: str
    running: bool
    command: str = ""
    mounts: tuple[str, ...] = ()
