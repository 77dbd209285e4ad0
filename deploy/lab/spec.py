"""What a lab is: names, addresses, device names and folders, all derived from a few fields.

The lab stands in for two (or more) GB10 nodes. Interface and device names are those of a GB10's
QSFP port 0 with its two PCIe halves; addresses are from 198.18.0.0/15, the range that RFC 2544
keeps for benchmarks, so they never meet a real network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from string import ascii_lowercase
from typing import TYPE_CHECKING, Literal

from deploy.lab.errors import LabSpecError

if TYPE_CHECKING:
    from pathlib import Path

Engine = Literal["machine", "containerd-store"]
"""`machine`: the machine's own dockerd; `containerd-store`: Docker 26 of a Debian 13 tree."""

NETDEVS = ("enp1s0f0np0", "enP2p1s0f0np0")
HCAS = ("rocep1s0f0", "roceP2p1s0f0")
"""The RDMA device of each netdev, in the same order."""
MTU = 9000
FIRST_HOST = 11
"""Last octet of the first node; .1 is the controller."""
MAX_NODES = len(ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Half:
    """One PCIe half of a node's port: a netdev, its RDMA device and its address."""

    netdev: str
    hca: str
    address: IPv4Address

    @property
    def mac(self) -> str:
        """A locally administered MAC address, made from the IPv4 address."""
        return ":".join(f"{octet:02x}" for octet in (0x02, 0x00, *self.address.packed))

    @property
    def link_local_gid(self) -> str:
        """The link-local IPv6 address (EUI-64) as sysfs writes a GID."""
        high, low = self.address.packed[:2], self.address.packed[2:]
        groups = ("fe80", "0000", "0000", "0000", "0000", f"{high[0]:02x}ff")
        return ":".join((*groups, f"fe{high[1]:02x}", low.hex()))

    @property
    def ipv4_gid(self) -> str:
        """The IPv4-mapped IPv6 address as sysfs writes a GID."""
        packed = self.address.packed
        return f"{'0000:' * 5}ffff:{packed[:2].hex()}:{packed[2:].hex()}"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node: its name, its halves (the addressed port first), its engine."""

    name: str
    halves: tuple[Half, ...]
    engine: Engine
    folder: Path

    @property
    def address(self) -> IPv4Address:
        """Where its sshd listens: the first half's address."""
        return self.halves[0].address


@dataclass(frozen=True, slots=True)
class LabSpec:
    """A lab; two labs coexist when name, folder and subnets differ.

    `root` is the repository; `folder` lies below it and is removed with the lab. `subnets` are
    the third octets of the two 198.18.x.0/24 networks. `engines` gives node engines in order;
    the rest are `machine`. `tree` is the Debian 13 tree that `containerd-store` nodes run in.
    """

    root: Path
    name: str = "lab"
    folder: str = ".sparklock/lab"
    node_count: int = 2
    subnets: tuple[int, int] = (77, 78)
    engines: tuple[Engine, ...] = ()
    tree: Path | None = None

    def __post_init__(self) -> None:
        """LabSpecError names the first field that cannot work."""
        if not re.fullmatch(r"[a-z0-9]{1,9}", self.name):
            raise LabSpecError(
                field="name", expected="1 to 9 letters a-z or digits", found=self.name
            )
        if not 1 <= self.node_count <= MAX_NODES:
            raise LabSpecError(
                field="node_count", expected=f"1 to {MAX_NODES}", found=str(self.node_count)
            )
        if self.subnets[0] == self.subnets[1] or not all(0 <= n <= 255 for n in self.subnets):  # noqa: PLR2004 - an octet
            raise LabSpecError(
                field="subnets", expected="two different octets", found=str(self.subnets)
            )
        if not self.root.is_absolute():
            raise LabSpecError(field="root", expected="an absolute path", found=str(self.root))
        if "containerd-store" in self.engines and self.tree is None:
            raise LabSpecError(
                field="tree",
                expected="a Debian 13 tree for the containerd-store nodes",
                found="none",
            )

    @property
    def path(self) -> Path:
        """The lab's folder."""
        return self.root / self.folder

    @property
    def networks(self) -> tuple[IPv4Network, ...]:
        """The network of each half."""
        return tuple(IPv4Network(f"198.18.{octet}.0/24") for octet in self.subnets)

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        """The nodes in rank order: spark-a, spark-b and so on."""
        return tuple(self._node(index) for index in range(self.node_count))

    def node(self, name: str) -> NodeSpec:
        """The node of a name; LabSpecError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise LabSpecError(
            field="node", expected=", ".join(node.name for node in self.nodes), found=name
        )

    def _node(self, index: int) -> NodeSpec:
        name = f"spark-{ascii_lowercase[index]}"
        halves = tuple(
            Half(netdev, hca, network[FIRST_HOST + index])
            for netdev, hca, network in zip(NETDEVS, HCAS, self.networks, strict=True)
        )
        engine: Engine = self.engines[index] if index < len(self.engines) else "machine"
        return NodeSpec(name, halves, engine, self.path / "nodes" / name)

    @property
    def uplinks(self) -> tuple[str, ...]:
        """The machine's own link to each network; a kernel name has at most 15 characters."""
        return tuple(f"sl-{self.name}-{index}" for index in range(len(self.networks)))

    @property
    def cgroup(self) -> str:
        """The cgroup, below every hierarchy's root, that holds the lab's containers."""
        return f"sparklock-{self.name}"

    @property
    def ssh_config(self) -> Path:
        """The ssh_config that reaches the nodes by name."""
        return self.path / "ssh_config"
