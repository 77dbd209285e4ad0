"""What [container] may add to or take from a container's rights, and what each addition costs.

The default is what serving over RDMA needs and no more. Whoever adds to it is told, in every plan
and every verification, what that gives to a program in the container; nothing is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import JsonValue
    from builder.manifest import ClusterManifest, ContainerSection

RDMA_DEVICES: Final = "/dev/infiniband"
"""In [container].devices it stands for the devices of a node's own hcas, not for the folder."""

DEFAULT_CAPABILITIES: Final = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""What Docker gives to a container by itself (moby, oci/caps/defaults.go)."""

ADDED_CAPABILITIES: Final = ("IPC_LOCK",)
"""RDMA registers memory, which pins it."""

DROPPED_CAPABILITIES: Final = ("MKNOD", "NET_RAW")
"""Of Docker's default: with the node's own network, NET_RAW reads and forges its traffic; MKNOD
makes device files. NCCL's verbs need neither."""

KERNEL_CAPABILITIES: Final = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"),
    *("SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW"),
    *("IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT"),
    *("SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD"),
    *("LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG"),
    *("WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"),
)
"""Every capability at its number (linux/capability.h)."""

LOG_MB: Final = 10
LOG_FILES: Final = 3
"""A rank that logs every step must not fill the node's disk."""

ENGINE_SOCKETS: Final = ("/run/docker.sock", "/var/run/docker.sock")

NO_NEW_PRIVILEGES: Final = "no-new-privileges"

SecurityOption: TypeAlias = Literal[
    "apparmor=unconfined", "label=disable", "no-new-privileges=false", "seccomp=unconfined"
]

_WHY: Final = {
    "apparmor=unconfined": "AppArmor then guards none of the node's files",
    "label=disable": "SELinux then guards none of the node's files",
    "no-new-privileges=false": "a setuid program in the image can then make root of a user",
    "seccomp=unconfined": "every system call of the kernel is then open to it",
}


@dataclass(frozen=True, slots=True)
class Weakening:
    """A setting of the manifest that gives more than the default, and why that matters."""

    setting: str
    why: str

    @property
    def text(self) -> str:
        """Both as a line: `weakens: [container] privileged: a program in …`."""
        return f"weakens: [container] {self.setting}: {self.why}"

    def as_json(self) -> dict[str, JsonValue]:
        """Both as a JSON object."""
        return {"setting": self.setting, "why": self.why}


def capabilities(container: ContainerSection) -> frozenset[str] | None:
    """What a process of the container can have at most; None for all that its kernel has."""
    if container.privileged or "ALL" in container.cap_add:
        return None
    ours = (DEFAULT_CAPABILITIES | {*ADDED_CAPABILITIES}) - {*DROPPED_CAPABILITIES}
    return ours | frozenset(container.cap_add)


def dropped_capabilities(container: ContainerSection) -> tuple[str, ...]:
    """What of Docker's default is taken away."""
    left = capabilities(container)
    return () if left is None else tuple(n for n in DROPPED_CAPABILITIES if n not in left)


def added_capabilities(container: ContainerSection) -> tuple[str, ...]:
    """What is added to Docker's default, ours first."""
    own = (name for name in container.cap_add if name not in ADDED_CAPABILITIES)
    return (*ADDED_CAPABILITIES, *own)


def security_options(container: ContainerSection) -> tuple[str, ...]:
    """The engine's security options: ours, unless it is switched off, then the manifest's."""
    off = f"{NO_NEW_PRIVILEGES}=false"
    first = () if off in container.security_opt else (NO_NEW_PRIVILEGES,)
    return (*first, *(option for option in container.security_opt if option != off))


def uses_rdma_devices(manifest: ClusterManifest) -> bool:
    """Whether every rank is given its node's RDMA devices; a single node talks to nobody."""
    return len(manifest.nodes) > 1 and RDMA_DEVICES in manifest.container.devices


def has_rdma(manifest: ClusterManifest) -> bool:
    """Whether any way leads from a rank's container to an RDMA device."""
    container = manifest.container
    listed = any(path.startswith(RDMA_DEVICES) for path in container.devices)
    return len(manifest.nodes) > 1 and (listed or bool(container.privileged))


def weakenings(manifest: ClusterManifest) -> tuple[Weakening, ...]:
    """All that the manifest gives to its containers beyond the default."""
    container = manifest.container
    return (*_of_the_whole(container), *_of_rights(container), *_of_the_nodes_own(container))


def _of_the_whole(container: ContainerSection) -> Iterator[Weakening]:
    if container.privileged:
        why = "root in it is root on the node: all devices, all capabilities, no filter of calls"
        yield Weakening("privileged = true", why)
    if container.ipc == "host":
        why = "it shares memory and semaphores with every process of the node"
        yield Weakening('ipc = "host"', why)


def _of_rights(container: ContainerSection) -> Iterator[Weakening]:
    for name in container.cap_add:
        if name not in ADDED_CAPABILITIES:
            yield Weakening(f"cap_add {name}", "a right over the node that serving does not need")
    for option in container.security_opt:
        yield Weakening(f"security_opt {option}", _WHY[option])


def _of_the_nodes_own(container: ContainerSection) -> Iterator[Weakening]:
    for path in container.devices:
        if path != RDMA_DEVICES:
            yield Weakening(f"devices {path}", "it reads and writes this device of the node")
    for mount in container.mounts:
        if _leads_to_the_engine(mount.source):
            why = "who reaches the engine is root on the node, read-only or not"
            yield Weakening(f"mount of {mount.source}", why)
        elif not mount.read_only:
            yield Weakening(f"mount of {mount.source}", "it writes to this path of the node")


def _leads_to_the_engine(source: str) -> bool:
    """Whether a mount's source is an engine's socket, or a folder that has one in it or below."""
    path = PurePosixPath(source)
    below = any(PurePosixPath(socket).is_relative_to(path) for socket in ENGINE_SOCKETS)
    return below or path.name == "docker.sock"
