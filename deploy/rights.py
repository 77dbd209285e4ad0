"""What a rank's container may do on its node: the engine's settings of rights and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.privileges import (
    LOG_FILES,
    LOG_MB,
    added_capabilities,
    dropped_capabilities,
    security_options,
)

if TYPE_CHECKING:
    from builder.digest import JsonValue
    from builder.manifest import ContainerSection

ULIMITS: Final = {"memlock": -1, "nofile": 1_048_576}
"""A memlock limit makes RDMA's ibv_reg_mr fail, and NCCL then uses TCP unasked."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of every rank's container; `memory_bytes` of 0 is no limit."""

    privileged: bool
    cap_add: tuple[str, ...]
    cap_drop: tuple[str, ...]
    security: tuple[str, ...]
    ipc: str
    ulimits: tuple[tuple[str, int], ...]
    memory_bytes: int
    log_mb: int
    log_files: int

    def host_config(self) -> dict[str, JsonValue]:
        """Their part of the engine's HostConfig (Docker Engine API 1.41).

        No restart policy: a rank that comes back alone meets a group that has gone on or broken up.
        """
        config: dict[str, JsonValue] = {
            "CapAdd": self.cap_add,
            "CapDrop": self.cap_drop,
            "IpcMode": self.ipc,
            "LogConfig": {
                "Type": "json-file",
                "Config": {"max-file": str(self.log_files), "max-size": f"{self.log_mb}m"},
            },
            "RestartPolicy": {"Name": "no"},
            "SecurityOpt": self.security,
            "Ulimits": [{"Name": name, "Soft": n, "Hard": n} for name, n in self.ulimits],
        }
        if self.privileged:
            config["Privileged"] = True
        if self.memory_bytes:
            config |= {"Memory": self.memory_bytes, "MemorySwap": self.memory_bytes}
        return config


def rights(container: ContainerSection) -> Rights:
    """The rights that a manifest's [container] gives."""
    return Rights(
        privileged=bool(container.privileged),
        cap_add=added_capabilities(container),
        cap_drop=dropped_capabilities(container),
        security=security_options(container),
        ipc=container.ipc or "private",
        ulimits=tuple(sorted({**ULIMITS, **container.ulimits}.items())),
        memory_bytes=(container.memory_gib or 0) * 2**30,
        log_mb=container.log_mb or LOG_MB,
        log_files=container.log_files or LOG_FILES,
    )
