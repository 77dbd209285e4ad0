"""Is each listed RDMA device of a node up, fast, and reachable at its own address?

Every rule is one that a pair of Sparks broke in public while it went on serving: NCCL takes TCP,
or half of the cable, without a word.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from verify.verdict import Finding, Verdict, not_shown, same, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.expected import ExpectedPort
    from verify.parse import Gid, Netdev, RdmaPort

_CABLE: Final = (
    "check the cable and `ip link`; after a warm reboot a Spark may need its power drawn"
)
_NAMES: Final = "list the node's own names in nodes[].fabric: `ls /sys/class/infiniband`, `ip link`"
_NETPLAN: Final = "correct the interface in the node's netplan, then `netplan apply`"
_ROCE_V2: Final = "RoCE v2"


def port_is_active(found: RdmaPort) -> Verdict:
    """Whether the RDMA port's logical state is ACTIVE; the evidence keeps whose device it is."""
    device = Verdict(evidence=(f"{found.hca} says of itself: {found.description or 'nothing'}",))
    state = same(
        "port state", expected="ACTIVE", found=_word(found.state), remedy=_missing(found, _CABLE)
    )
    return together([device, state])


def link_is_up(found: RdmaPort) -> Verdict:
    """Whether the port's physical state is LinkUp."""
    return same(
        "physical state",
        expected="LinkUp",
        found=_word(found.phys_state),
        remedy=_missing(found, _CABLE),
    )


def _word(text: str) -> str:
    """`ACTIVE` of sysfs's `4: ACTIVE`."""
    return text.partition(": ")[2] or text


def _missing(found: RdmaPort, remedy: str) -> str:
    return remedy if found.state else _NAMES


def link_layer(found: RdmaPort) -> Verdict:
    """Whether the port speaks Ethernet, as RoCE needs."""
    return same(
        "link layer",
        expected="Ethernet",
        found=found.link_layer,
        remedy=_missing(found, "set the port to Ethernet with mlxconfig (LINK_TYPE), then reboot"),
    )


def rate(port: ExpectedPort, found: RdmaPort) -> Verdict:
    """Whether the port's rate is at least the wanted one."""
    rate_gbit_s = found.rate_gbit_s or 0
    finding = Finding(
        f"{port.hca} runs below the wanted rate",
        f"at least {port.rate_gbit_s} Gb/s",
        f"{rate_gbit_s} Gb/s" if found.rate_gbit_s else "nothing",
        _missing(found, f"{_CABLE}; or lower nodes[].fabric.rate_gbit_s on purpose"),
    )
    return Verdict(
        evidence=(f"rate: {rate_gbit_s} Gb/s",),
        findings=() if rate_gbit_s >= port.rate_gbit_s else (finding,),
    )


def netdev_belongs(port: ExpectedPort, netdevs: Sequence[str]) -> Verdict:
    """Whether the device's own netdev is the listed one."""
    found = " ".join(netdevs) or "nothing"
    finding = Finding(f"{port.hca} has another netdev", port.netdev, found, _NAMES)
    return Verdict(
        evidence=(f"netdev: {found}",), findings=() if port.netdev in netdevs else (finding,)
    )


def netdev_is_up(port: ExpectedPort, netdev: Netdev | None) -> Verdict:
    """Whether the netdev is up and has a carrier."""
    return together(
        [
            same(
                f"operstate of {port.netdev}",
                expected="UP",
                found=netdev.operstate if netdev else "no such interface",
                remedy=_CABLE if netdev else _NAMES,
            ),
            same(
                f"carrier of {port.netdev}",
                expected=True,
                found=netdev.carrier if netdev else False,
                remedy=_CABLE if netdev else _NAMES,
            ),
        ]
    )


def mtu(port: ExpectedPort, netdev: Netdev | None) -> Verdict:
    """Whether the netdev's MTU is the wanted one; RoCE's own MTU follows from it."""
    return same(
        f"MTU of {port.netdev}",
        expected=port.mtu,
        found=netdev.mtu if netdev else "no such interface",
        remedy=_NETPLAN if netdev else _NAMES,
    )


def address(port: ExpectedPort, netdev: Netdev | None) -> Verdict:
    """Whether the netdev has the listed address with the listed prefix."""
    wanted = f"{port.address}/{port.prefix_bits}"
    found = [str(item) for item in netdev.addresses] if netdev else []
    text = ", ".join(found) or "no IPv4 address"
    finding = Finding(f"{port.netdev} lacks its fabric address", wanted, text, _NETPLAN)
    return Verdict(
        evidence=(f"addresses of {port.netdev}: {text}",),
        findings=() if wanted in found else (finding,),
    )


def gid(port: ExpectedPort, found: RdmaPort) -> Verdict:
    """Whether the port has a RoCE v2 GID of exactly the listed netdev and address.

    The index moves with the interface's addresses, so it is found and reported, never assumed.
    """
    fits = [item for item in found.gids if _fits(port, item)]
    listed = "; ".join(_gid_text(item) for item in found.gids) or "no GID"
    finding = Finding(
        f"{port.hca} has no RoCE v2 GID of {port.netdev} at {port.address}",
        f"{_ROCE_V2}, {port.netdev}, {port.address}",
        listed,
        f"give {port.netdev} that address; an interface without an address has no such GID",
    )
    evidence = tuple(f"RoCE v2 GID index {item.index}: {item.address}" for item in fits)
    return Verdict(evidence=evidence or (listed,), findings=() if fits else (finding,))


def _fits(port: ExpectedPort, item: Gid) -> bool:
    return (item.kind, item.netdev, item.address) == (_ROCE_V2, port.netdev, port.address)


def _gid_text(item: Gid) -> str:
    return f"{item.index}: {item.kind}, {item.netdev}, {item.address or 'not IPv4'}"


def subnets_differ(ports: Sequence[ExpectedPort], netdevs: Mapping[str, Netdev]) -> Verdict:
    """Whether the halves of a cable live in different subnets, by the addresses they have now.

    In one subnet the kernel answers and routes for both through either: packets of one half leave
    by the other.
    """
    names = [port.netdev for port in ports]
    if len(names) < 2:  # noqa: PLR2004 - a pair
        return not_shown("the node lists a single RDMA device")
    networks = {
        name: {item.network for item in netdevs[name].addresses} if name in netdevs else set()
        for name in names
    }
    findings = [
        Finding(
            f"{one} and {other} are in one subnet",
            "a subnet of its own for each",
            f"{a} and {b}",
            _NETPLAN,
        )
        for one, other in combinations(names, 2)
        for a in networks[one]
        for b in networks[other]
        if a.overlaps(b)
    ]
    findings += [
        Finding(f"{name} has no subnet", "an IPv4 address", "none", _NETPLAN)
        for name in names
        if not networks[name]
    ]
    evidence = tuple(
        f"{name}: {', '.join(sorted(map(str, found))) or 'none'}"
        for name, found in networks.items()
    )
    return Verdict(evidence=evidence, findings=tuple(findings))


def firmware_agrees(ports: Mapping[str, Sequence[RdmaPort]]) -> Verdict:
    """Whether each listed device has the same firmware as its counterparts on the other nodes.

    `ports` maps a node's name to its devices in the listed order.
    """
    if len(ports) < 2:  # noqa: PLR2004 - a pair
        return not_shown("the cluster has a single node")
    if not any(ports.values()):
        return not_shown("no node lists an RDMA device")
    found = {
        f"{node} {port.hca}": port.firmware or "not shown"
        for node, listed in ports.items()
        for port in listed
    }
    by_place = list(zip(*ports.values(), strict=False))
    agree = all(len({port.firmware for port in same_place}) == 1 for same_place in by_place)
    shown = all(port.firmware for listed in ports.values() for port in listed)
    finding = Finding(
        "the RDMA devices' firmware differs between the nodes, or is not shown",
        "one version per device on all nodes",
        "; ".join(f"{name}: {version}" for name, version in found.items()),
        "update the older one: fwupdmgr update, then a cold start",
    )
    return Verdict(
        evidence=tuple(f"{name}: firmware {version}" for name, version in found.items()),
        findings=() if agree and shown else (finding,),
    )
