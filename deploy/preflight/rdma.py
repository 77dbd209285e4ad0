"""Rules on the RDMA devices, by sysfs: port, rate, PCIe link, GIDs, and both halves of a port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.preflight import known, rows
from deploy.preflight.finding import Spot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address

    from builder.manifest import ClusterManifest, Fabric, Node
    from deploy.preflight.finding import Finding
    from deploy.state import GidFacts, HcaFacts, NodeState

ACTIVE: Final = "ACTIVE"
ETHERNET: Final = "Ethernet"
LINK_UP: Final = "LinkUp"
ROCE_V2: Final = "RoCE v2"
MAPPED: Final = f"{'0000:' * 5}ffff:"
"""How the GIDs of IPv4 addresses begin."""

GID_INDEX: Final = "NCCL_IB_GID_INDEX"


def hcas(node: Node, fabric: Fabric, state: NodeState) -> Iterator[Finding]:
    """Each device of the manifest is there and its port works."""
    found = {hca.name: hca for hca in state.hcas}
    netdevs = [*fabric.netdevs, *[""] * len(fabric.hcas)]
    for index, (name, netdev) in enumerate(zip(fabric.hcas, netdevs, strict=False)):
        spot = Spot(rows.hca_row(index), (node.name,), at=name)
        if name in found:
            yield from _port(spot, found[name])
            yield from _pcie(spot, found[name])
            yield from _place(spot, fabric, found[name], netdev)
            continue
        yield spot.error(
            "the RDMA device is not there",
            found=", ".join(sorted(found)) or "no RDMA device at all",
            remedy="correct hcas of the node in cluster.toml (ibdev2netdev lists them), or put the "
            "cable in: without one the device may be gone",
        )


def _port(spot: Spot, hca: HcaFacts) -> Iterator[Finding]:
    look = "check the cable at both ends and `ip link` of its interface on the node"
    if ACTIVE not in hca.state:
        yield spot.error(
            "the RoCE port is not up", look, expected="4: ACTIVE", found=hca.state or "not told"
        )
    elif not hca.phys_state:
        yield spot.unknown("the port's physical state could not be read", look)
    elif LINK_UP not in hca.phys_state:
        yield spot.error(
            "the port has no physical link", look, expected="5: LinkUp", found=hca.phys_state
        )
    if hca.link_layer != ETHERNET:
        yield spot.error(
            "the port does not speak RoCE",
            expected=ETHERNET,
            found=hca.link_layer or "not told",
            remedy="set the port's link type to Ethernet: mlxconfig set LINK_TYPE_P1=2",
        )


def _place(spot: Spot, fabric: Fabric, hca: HcaFacts, netdev: str) -> Iterator[Finding]:
    if netdev and netdev not in hca.netdevs:
        yield spot.error(
            "the RDMA device belongs to another interface",
            expected=netdev,
            found=", ".join(hca.netdevs) or "none",
            remedy="correct netdev and hcas of the node in cluster.toml: ibdev2netdev pairs them",
        )
    if hca.rate_gbit_s is None:
        yield spot.unknown("the port's rate could not be read", "ibstat on the node tells it")
    elif hca.rate_gbit_s < fabric.rate_gbit_s:
        yield spot.error(
            "the port is slower than the manifest says",
            expected=f"{fabric.rate_gbit_s} Gbit/s",
            found=f"{hca.rate_gbit_s} Gbit/s",
            remedy="check the cable, or set rate_gbit_s of the node's fabric to what it is",
        )


def _pcie(spot: Spot, hca: HcaFacts) -> Iterator[Finding]:
    if hca.pcie_gt_s is None or hca.pcie_width is None:
        yield spot.unknown("its PCIe link could not be read", "sudo lspci -vv on the node tells it")
    elif hca.pcie_gt_s < known.PCIE_GT_S or hca.pcie_width < known.PCIE_WIDTH:
        yield spot.warning(
            "its PCIe link is slower than a Spark's",
            expected=f"{known.PCIE_GT_S:g} GT/s, x{known.PCIE_WIDTH}",
            found=f"{hca.pcie_gt_s:g} GT/s, x{hca.pcie_width}",
            remedy="update the node's firmware (fwupdmgr update), then take its power away for a "
            "minute: old firmware ran one half at x2",
        )


def gids(manifest: ClusterManifest, node: Node, state: NodeState) -> Iterator[Finding]:
    """Each device has a RoCE v2 GID of its own address, wherever in its table it stands."""
    fabric = node.fabric
    if fabric is None:
        return
    found = {hca.name: hca for hca in state.hcas}
    pinned = (manifest.container.env | node.env).get(GID_INDEX)
    for index, name in enumerate(fabric.hcas):
        if name not in found:
            continue
        spot = Spot(rows.hca_row(index), (node.name,), at=name)
        table = found[name].gids
        address = fabric.addresses[index] if index < len(fabric.addresses) else None
        if table is None:
            yield spot.unknown("its GID table could not be read", "show_gids on the node tells it")
            continue
        right = right_gids(table, address)
        if not right:
            yield _no_gid(spot, table, address)
        elif pinned is not None:
            yield from _pinned(spot, pinned, right)


def _no_gid(spot: Spot, table: tuple[GidFacts, ...], address: IPv4Address | None) -> Finding:
    found = ", ".join(f"{gid.index}: {gid.kind}" for gid in table) or "an empty table"
    if address is None:
        return spot.error(
            "the device has no RoCE v2 GID of any IPv4 address",
            expected="an interface with an address",
            found=found,
            remedy="give its interface an address in a subnet of its own, on every node, and write "
            "it into cluster.toml as the twin of the node's fabric",
        )
    return spot.error(
        "the device has no RoCE v2 GID of its address",
        expected=mapped(address),
        found=found,
        remedy="its interface needs the address before the device can use it; then look at it with "
        "show_gids on the node",
    )


def _pinned(spot: Spot, pinned: str, right: tuple[GidFacts, ...]) -> Iterator[Finding]:
    """The index that the environment names is a right one; NCCL reads an empty text as 0."""
    indices = [str(gid.index) for gid in right]
    if (pinned.strip() or "0") not in indices:
        yield spot.error(
            f"{GID_INDEX} names another GID than the device's own",
            expected=" or ".join(indices),
            found=pinned or "an empty text, which means 0",
            remedy=f"remove {GID_INDEX} from cluster.toml: NCCL finds the right one by itself, "
            "and the index moves with the interface's addresses",
        )


def right_gids(table: tuple[GidFacts, ...], address: IPv4Address | None) -> tuple[GidFacts, ...]:
    """The slots of a table that are RoCE v2 and of an IPv4 address; of any, if it is None."""
    begins = MAPPED if address is None else mapped(address)
    return tuple(gid for gid in table if gid.kind == ROCE_V2 and gid.gid.startswith(begins))


def mapped(address: IPv4Address) -> str:
    """An IPv4 address as sysfs writes its GID."""
    digits = address.packed.hex()
    return f"{MAPPED}{digits[:4]}:{digits[4:]}"


def both_halves(node: Node, fabric: Fabric, state: NodeState) -> Iterator[Finding]:
    """No other port of the node is up and unused: one half alone is half the cable's rate."""
    if len(fabric.hcas) > 1:
        return
    unused = [hca for hca in state.hcas if hca.name not in fabric.hcas and ACTIVE in hca.state]
    if unused:
        yield Spot(rows.hca_row(0), (node.name,), at=fabric.hcas[0]).warning(
            "one RDMA device is listed and another one is up: half of the port's rate",
            expected="both halves of the port",
            found=f"{unused[0].name} of {', '.join(unused[0].netdevs) or 'no interface'} is unused",
            remedy=f'add "{unused[0].name}" to hcas of the node\'s fabric, and its twin, with an '
            "address in a subnet of its own",
        )
