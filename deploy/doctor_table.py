"""Nodes side by side: what was observed of each, one row a fact, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.privileges import uses_rdma_devices
from deploy.actions import size_text
from deploy.links import CONNECTED
from deploy.preflight import rows
from deploy.preflight.finding import Level
from deploy.preflight.links import answers, full_size_passes
from deploy.preflight.rdma import right_gids
from deploy.weights import missing_model

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from builder.manifest import ClusterManifest, Fabric, Node
    from deploy.host import Memory
    from deploy.links import WayFacts
    from deploy.preflight.finding import Finding
    from deploy.state import NodeState
    from deploy.wanted import Wanted

UNKNOWN: Final = "unknown"
REACHED: Final = "reached"
WORST: Final = (Level.ERROR, Level.WARNING, Level.UNKNOWN)
GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Row:
    """One fact of every node, in their order; an empty cell is a fact that a node has not."""

    name: str
    cells: tuple[str, ...]


def table(
    manifest: ClusterManifest,
    wanted: Wanted | None,
    states: Mapping[str, NodeState],
    tried: Sequence[WayFacts],
    silent: Collection[str] = (),
) -> tuple[Row, ...]:
    """The rows of all nodes that were observed; `tried` are the ways between them.

    `silent` are nodes that ssh reached and whose engine told nothing.
    """
    facts = {name: {rows.SSH: REACHED} for name in silent}
    facts |= {
        node.name: dict(_facts(manifest, wanted, node, states[node.name], tried))
        for node in manifest.nodes
        if node.name in states
    }
    names = list(dict.fromkeys(name for of_node in facts.values() for name in of_node))
    return tuple(
        Row(name, tuple(facts.get(node.name, {}).get(name, "") for node in manifest.nodes))
        for name in names
    )


def _facts(
    manifest: ClusterManifest,
    wanted: Wanted | None,
    node: Node,
    state: NodeState,
    tried: Sequence[WayFacts],
) -> Iterator[tuple[str, str]]:
    yield rows.SSH, REACHED
    yield rows.ENGINE, f"Docker {state.engine.version}, {state.engine.store.value}"
    yield rows.PROCESSOR, state.engine.platform
    yield from _machine(manifest, state)
    if len(manifest.nodes) > 1:
        yield from _fabric(node, state)
        yield rows.LINKS, _links([way for way in tried if way.way.node == node.name])
    if node is manifest.head:
        yield rows.PORTS, _ports(manifest, state)
    if wanted is not None:
        yield from _supplies(wanted, state)
    yield rows.LEFTOVERS, _leftovers(state)


def _machine(manifest: ClusterManifest, state: NodeState) -> Iterator[tuple[str, str]]:
    host = state.host
    if host is None:
        yield rows.MACHINE, UNKNOWN
        return
    yield rows.MACHINE, host.product or UNKNOWN
    yield rows.KERNEL, host.kernel or UNKNOWN
    if manifest.container.gpus == "all":
        yield rows.GPU, str(host.gpu.count)
        yield rows.DRIVER, host.gpu.driver or "none"
    if uses_rdma_devices(manifest):
        yield rows.MEMLOCK, {True: "can be lifted", False: "limited", None: UNKNOWN}[host.memlock]
    memory = host.memory
    if memory is None:
        yield rows.MEMORY, UNKNOWN
    else:
        yield rows.MEMORY, _memory(memory)
        used = size_text(memory.swap_total - memory.swap_free)
        whole = size_text(memory.swap_total)
        yield rows.SWAP, f"{used} of {whole} in use" if memory.swap_total else "none"
    ahead_s = host.clock_ahead_s
    yield rows.CLOCK, UNKNOWN if ahead_s is None else f"{ahead_s:+.2f} s"


def _memory(memory: Memory) -> str:
    parts = (
        f"{size_text(memory.available)} available",
        f"{size_text(memory.free)} free",
        f"{size_text(memory.cached)} cache",
    )
    return f"{size_text(memory.total)}: {', '.join(parts)}"


def _fabric(node: Node, state: NodeState) -> Iterator[tuple[str, str]]:
    if node.fabric is not None:
        yield from _interfaces(node.fabric, state)
        yield from _devices(node.fabric, state)


def _interfaces(fabric: Fabric, state: NodeState) -> Iterator[tuple[str, str]]:
    netdevs = {netdev.name: netdev for netdev in state.netdevs}
    for index, name in enumerate(fabric.netdevs):
        found = netdevs.get(name)
        if found is None:
            yield rows.fabric_row(index), f"{name}: {'none' if netdevs else UNKNOWN}"
            continue
        addresses = " ".join(map(str, found.addresses)) or "no address"
        up = "up" if "LOWER_UP" in found.flags else "down" if found.flags else UNKNOWN
        yield rows.fabric_row(index), f"{name} {addresses}, MTU {found.mtu}, {up}"


def _devices(fabric: Fabric, state: NodeState) -> Iterator[tuple[str, str]]:
    hcas = {hca.name: hca for hca in state.hcas}
    for index, name in enumerate(fabric.hcas):
        device = hcas.get(name)
        if device is None:
            yield rows.hca_row(index), f"{name}: none"
            continue
        state_word = device.state.rpartition(" ")[2] or UNKNOWN
        rate = UNKNOWN if device.rate_gbit_s is None else f"{device.rate_gbit_s} Gbit/s"
        width = UNKNOWN if device.pcie_width is None else f"x{device.pcie_width}"
        address = fabric.addresses[index] if index < len(fabric.addresses) else None
        gids = None if device.gids is None else right_gids(device.gids, address)
        gid = UNKNOWN if gids is None else ", ".join(str(gid.index) for gid in gids) or "none"
        yield rows.hca_row(index), f"{name} {state_word}, {rate}, PCIe {width}, GID {gid}"
    firmware = sorted({hcas[name].firmware for name in fabric.hcas if name in hcas})
    yield rows.FIRMWARE, ", ".join(text or UNKNOWN for text in firmware) or UNKNOWN


def _links(tried: Sequence[WayFacts]) -> str:
    if not tried:
        return "not tried"
    whole = [
        facts
        for facts in tried
        if answers(facts)
        and full_size_passes(facts)
        and facts.connects
        and all(said == CONNECTED for _, said in facts.connects)
    ]
    return f"{len(whole)} of {len(tried)} ways at full MTU and open"


def _ports(manifest: ClusterManifest, state: NodeState) -> str:
    serve = manifest.serve
    asked = (serve.port, serve.master_port) if len(manifest.nodes) > 1 else (serve.port,)
    taken = {item.port for item in state.listeners}
    return ", ".join(f"{port} {'taken' if port in taken else 'free'}" for port in asked)


def _supplies(wanted: Wanted, state: NodeState) -> Iterator[tuple[str, str]]:
    image = wanted.image
    there = image.is_image(state.image) or image.is_image(state.untagged)
    free = state.supply.free_bytes if state.supply else None
    room = "" if free is None else f", {size_text(free)} free"
    yield rows.IMAGE, "there" if there else f"to be brought{room}"
    lacking, count = len(missing_model(wanted, state)), len(wanted.model_files)
    free = state.host.model_free_bytes if state.host else None
    room = "" if free is None else f", {size_text(free)} free"
    yield rows.MODEL, f"{count - lacking} of {count} files{room}"


def _leftovers(state: NodeState) -> str:
    ours = sum(1 for item in state.containers if item.running)
    return f"{ours} of ours run, {len(state.others)} other containers"


def drawn(names: Sequence[str], table: Iterable[Row], findings: Iterable[Finding]) -> list[str]:
    """The table as lines of text; a cell that a finding is about ends with how bad it is."""
    marks = _marks(findings)
    lines = [("", *names)]
    for row in table:
        cells = zip(names, row.cells, strict=True)
        lines.append(
            (row.name, *(_marked(text, marks.get((name, row.name))) for name, text in cells))
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _marks(findings: Iterable[Finding]) -> dict[tuple[str, str], Level]:
    found: dict[tuple[str, str], Level] = {}
    for finding in findings:
        if finding.level not in WORST:
            continue
        for node in finding.nodes:
            before = found.get((node, finding.row), finding.level)
            found[node, finding.row] = min(before, finding.level, key=WORST.index)
    return found


def _marked(text: str, level: Level | None) -> str:
    return text if level is None else f"{text} [{level.value}]".lstrip()
