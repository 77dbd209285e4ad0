"""What NCCL's own log lines say about the transport.

Read from a real NCCL 2.28.9: `NET/IB : Using [RO]; OOB eth0:...` is printed even where no RDMA
device was found, and a wrong NCCL_IB_HCA falls back to TCP with exit status 0. So only the verdict
line, the channels, and devices listed by name count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Transport = Literal["IB", "socket", "none"]

_SAYS_IB: Final = re.compile(r"Using network IB\b|via NET/IB/\d")
_SAYS_SOCKET: Final = re.compile(r"Using network Socket\b|via NET/Socket/\d")
_DEVICES: Final = re.compile(r"NET/IB : Using (?P<devices>\[\d+\].*)")
_DEVICE: Final = re.compile(r"\[\d+\] ?(?P<hca>[\w.-]+):\d+/(?:RoCE|IB)\b")
"""`[0]hca:1/RoCE`, and `[0]={[0] hca:1/RoCE, [1] hca:1/RoCE}` of the releases that merge here."""
_VERSION: Final = re.compile(r"NCCL version (?P<version>\S+)")


@dataclass(frozen=True, slots=True)
class NcclLog:
    """What one container's log says of NCCL.

    `transport` is `IB` only if a line says so and no line says socket; `none` where no line
    decides. `hcas` are the RDMA devices NCCL listed, sorted.
    """

    lines: int
    transport: Transport
    hcas: tuple[str, ...]
    version: str


def parse_nccl(lines: Iterable[str]) -> NcclLog:
    """What the NCCL lines of one container's log say; other lines are ignored."""
    own = [line for line in lines if "NCCL INFO" in line or "NCCL WARN" in line]
    hcas = {
        device["hca"]
        for line in own
        for listed in _DEVICES.finditer(line)
        for device in _DEVICE.finditer(listed["devices"])
    }
    versions = {match["version"] for line in own for match in _VERSION.finditer(line)}
    return NcclLog(
        lines=len(own),
        transport=_transport(own),
        hcas=tuple(sorted(hcas)),
        version=", ".join(sorted(versions)),
    )


def _transport(lines: list[str]) -> Transport:
    if any(_SAYS_SOCKET.search(line) for line in lines):
        return "socket"
    if any(_SAYS_IB.search(line) for line in lines):
        return "IB"
    return "none"
