"""Text that nodes print -> values: sysfs, /proc/net and `ip -json`.

What is told of the machine itself stands in deploy/parse_host.py.
"""

from __future__ import annotations

import json
import re
from ipaddress import IPv4Address, IPv4Interface, IPv6Address
from typing import TYPE_CHECKING, Any, Final

from deploy.state import GidFacts, HcaFacts, Listener, NetdevFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

RDMA: Final = "/sys/class/infiniband"

LISTEN: Final = "0A"
"""TCP_LISTEN, as /proc/net/tcp spells it."""

LISTENING: Final = "00010000"
"""The flags of a listening socket in /proc/net/unix (__SO_ACCEPTCON)."""


def lines_by_file(output: str) -> dict[str, list[str]]:
    """The lines that `grep -H ''` printed, by file; a file that was not there has no key."""
    files: dict[str, list[str]] = {}
    for line in output.splitlines():
        name, _, text = line.partition(":")
        files.setdefault(name, []).append(text)
    return files


def hca_facts(
    devices: Iterable[str], files: Mapping[str, list[str]], readable: Collection[str] = ()
) -> tuple[HcaFacts, ...]:
    """Every RDMA device, by name.

    `devices` are the paths found directly below /sys/class/infiniband and below the folders
    /sys/class/infiniband/HCA/device/net; `files` the sysfs files read of the devices. Of the
    GID tables only used slots are in it: slot 0 is in `readable` when a table can be read at all.
    """
    netdevs: dict[str, list[str]] = {}
    for path in devices:
        parts = path.removeprefix(f"{RDMA}/").split("/")
        of_device = netdevs.setdefault(parts[0], [])
        if len(parts) > 1:
            of_device.append(parts[-1])
    return tuple(_hca(name, sorted(netdevs[name]), files, readable) for name in sorted(netdevs))


def _hca(
    name: str, netdevs: list[str], files: Mapping[str, list[str]], readable: Collection[str]
) -> HcaFacts:
    device = f"{RDMA}/{name}"

    def text_of(file: str) -> str:
        return "".join(files.get(f"{device}/{file}", [])[:1]).strip()

    # `200 Gb/sec (2X NDR)` and `200 Gb/sec (4X HDR)` both occur: the number alone counts.
    rate = _number_in(text_of("ports/1/rate"))
    width = _number_in(text_of("device/current_link_width"))
    return HcaFacts(
        name=name,
        state=text_of("ports/1/state"),
        link_layer=text_of("ports/1/link_layer"),
        rate_gbit_s=None if rate is None else int(rate),
        netdevs=tuple(netdevs),
        phys_state=text_of("ports/1/phys_state"),
        firmware=text_of("fw_ver"),
        pcie_gt_s=_number_in(text_of("device/current_link_speed")),
        pcie_width=None if width is None else int(width),
        gids=_gids(f"{device}/ports/1", files, readable),
    )


def _number_in(text: str) -> float | None:
    found = re.match(r"\d+(\.\d+)?", text)
    return float(found.group()) if found else None


def _gids(
    port: str, files: Mapping[str, list[str]], readable: Collection[str]
) -> tuple[GidFacts, ...] | None:
    if f"{port}/gids/0" not in readable:
        return None
    slots = (path.removeprefix(f"{port}/gids/") for path in files)
    used = sorted(int(slot) for slot in slots if slot.isdecimal())
    return tuple(
        GidFacts(
            index=index,
            gid="".join(files[f"{port}/gids/{index}"][:1]).strip(),
            kind="".join(files.get(f"{port}/gid_attrs/types/{index}", [])[:1]).strip(),
        )
        for index in used
    )


def listeners(lines: Iterable[str]) -> tuple[Listener, ...]:
    """The listening sockets in lines of /proc/net/tcp and /proc/net/tcp6."""
    found = set()
    for line in lines:
        fields = line.split()
        if len(fields) > 3 and fields[3] == LISTEN:  # noqa: PLR2004 - the field `st`
            address, _, port = fields[1].partition(":")
            found.add(Listener(address_of(address), int(port, 16)))
    return tuple(sorted(found, key=lambda item: (item.port, item.address)))


def address_of(text: str) -> str:
    """An address of /proc/net/tcp: 32-bit words, each in the machine's (little-endian) order."""
    packed = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    if len(packed) == 4:  # noqa: PLR2004 - bytes of an IPv4 address
        return str(IPv4Address(packed))
    mapped = IPv6Address(packed).ipv4_mapped
    return str(mapped or IPv6Address(packed))


def listens(sockets: str, path: str) -> bool:
    """Whether /proc/net/unix shows a listening socket at a path; /var/run is a link to /run."""
    for line in sockets.splitlines():
        fields = line.split(maxsplit=7)
        named = len(fields) > 7 and _without_link(fields[7]) == _without_link(path)  # noqa: PLR2004
        if named and fields[3] == LISTENING:
            return True
    return False


def _without_link(path: str) -> str:
    return path.removeprefix("/var") if path.startswith("/var/run/") else path


def netdev_facts(output: bytes) -> tuple[NetdevFacts, ...]:
    """The interfaces in the output of `ip -json address show`; none if it is no such output."""
    try:
        found: list[dict[str, Any]] = json.loads(output or b"[]")
    except ValueError:
        return ()
    return tuple(sorted((_netdev(item) for item in found if item), key=lambda item: item.name))


def _netdev(item: Mapping[str, Any]) -> NetdevFacts:
    return NetdevFacts(
        name=str(item["ifname"]),
        mtu=int(item["mtu"]),
        addresses=tuple(_addresses(item)),
        flags=tuple(map(str, item.get("flags", ()))),
    )


def _addresses(item: Mapping[str, Any]) -> Iterator[IPv4Interface]:
    for info in item.get("addr_info", ()):
        if info.get("family") == "inet":
            yield IPv4Interface(f"{info['local']}/{info['prefixlen']}")
