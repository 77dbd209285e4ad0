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

_RDMA_PLUGIN: Final = r"(?:IB(?:ext(?:_v\d+)?)?|NCCL RDMA Plugin(?: v\d+)?)"
"""NCCL's own plugin, and by its two names the library that NVIDIA's images have beside it."""

_SAYS_IB: Final = re.compile(rf"Using network {_RDMA_PLUGIN}\s*$|via NET/{_RDMA_PLUGIN}/")
_SAYS_SOCKET: Final = re.compile(r"Using network Socket\b|via NET/Socket/")
_FAILED: Final = re.compile(r"Failed to initialize any NET plugin|no socket interface found")
_CHANNEL: Final = re.compile(rf"via NET/{_RDMA_PLUGIN}/(?P<place>\d+)")
_DEVICES: Final = re.compile(r"NET/IB : Using (?P<devices>\[\d+\].*)")
_DEVICE: Final = re.compile(r"\[(?P<place>\d+)\] ?(?P<hca>[\w.-]+):\d+/(?:RoCE|IB)\b")
"""`[0]hca:1/RoCE`, and `[0]={[0] hca:1/RoCE, [1] hca:1/RoCE}` of the releases that merge here."""

_MERGED_HERE: Final = re.compile(r"\[(?P<place>\d+)\]=\{(?P<parts>[^}]*)\}")
_MERGED: Final = re.compile(
    r"NET/IB : Made virtual device \[(?P<place>\d+)\] name=(?P<parts>\S+) .*ndevs=(?P<count>\d+)"
)
"""Told of every device, with ndevs=1 for one alone; a merged one has its parts' names with `+`."""

_VERSION: Final = re.compile(r"NCCL version (?P<version>\S+)")


@dataclass(frozen=True, slots=True)
class NcclLog:
    """What one container's log says of NCCL.

    `transport` is `IB` only if a line says so and no line says socket or failed; `none` where no
    line decides. `hcas` are the RDMA devices NCCL listed, sorted; `used` those of them that a
    channel goes by, and None if the log has no line of a channel that goes by RDMA.
    """

    lines: int
    transport: Transport
    hcas: tuple[str, ...]
    version: str
    used: tuple[str, ...] | None = None


def parse_nccl(lines: Iterable[str]) -> NcclLog:
    """What the NCCL lines of one container's log say; other lines are ignored."""
    own = [line for line in lines if "NCCL INFO" in line or "NCCL WARN" in line]
    places = _places(own)
    channels = {int(found["place"]) for line in own for found in _CHANNEL.finditer(line)}
    versions = {match["version"] for line in own for match in _VERSION.finditer(line)}
    return NcclLog(
        lines=len(own),
        transport=_transport(own),
        hcas=_sorted(places.values()),
        version=", ".join(sorted(versions)),
        used=_sorted(places.get(place, ()) for place in channels) if channels else None,
    )


def _sorted(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({name for group in names for name in group}))


def _transport(lines: list[str]) -> Transport:
    if any(_SAYS_SOCKET.search(line) for line in lines):
        return "socket"
    if any(_FAILED.search(line) for line in lines):
        return "none"
    return "IB" if any(_SAYS_IB.search(line) for line in lines) else "none"


def _places(lines: list[str]) -> dict[int, tuple[str, ...]]:
    """The RDMA devices behind each number that a channel may name: one, or several merged."""
    places: dict[int, tuple[str, ...]] = {}
    for line in lines:
        for listed in _DEVICES.finditer(line):
            text = listed["devices"]
            for merged in _MERGED_HERE.finditer(text):
                places[int(merged["place"])] = tuple(
                    part["hca"] for part in _DEVICE.finditer(merged["parts"])
                )
            for device in _DEVICE.finditer(_MERGED_HERE.sub("", text)):
                places[int(device["place"])] = (device["hca"],)
    known = set(_sorted(places.values()))
    for line in lines:
        for virtual in _MERGED.finditer(line):
            parts = tuple(virtual["parts"].split("+"))
            if known.issuperset(parts):
                places[int(virtual["place"])] = parts
    return places
