"""Rules that compare nodes: the ranks of one server want equal machines and equal clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.preflight import known, rows
from deploy.preflight.finding import Spot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from builder.manifest import ClusterManifest
    from deploy.preflight.finding import Finding
    from deploy.state import NodeState

CLOCKS_APART_S: Final = 5.0
"""By how much the clocks of nodes may differ: logs could not be compared, and logins with
certificates begin to fail."""


def alike(manifest: ClusterManifest, states: Mapping[str, NodeState]) -> Iterator[Finding]:
    """What should be the same on every node."""
    if len(states) > 1:
        for row, remedy, of in COMPARED:
            yield from _differs(row, remedy, {name: of(state) for name, state in states.items()})
        if manifest.container.gpus == "all":
            yield from _drivers(states)
        yield from _firmware(manifest, states)
    yield from _clocks(states)


def _kernel(state: NodeState) -> str:
    return state.host.kernel if state.host else ""


COMPARED: Final[tuple[tuple[str, str, Callable[[NodeState], str]], ...]] = (
    (rows.KERNEL, "run the same updates on every node, then reboot", _kernel),
    (rows.ENGINE, "install the same Docker on every node", lambda state: state.engine.version),
)


def _differs(row: str, remedy: str, values: Mapping[str, str]) -> Iterator[Finding]:
    told = {name: value for name, value in values.items() if value}
    if len(set(told.values())) > 1:
        yield Spot(row, tuple(told)).warning(
            f"the nodes differ in their {row}", remedy, expected="one version", found=_each(told)
        )


def _drivers(states: Mapping[str, NodeState]) -> Iterator[Finding]:
    told = {name: s.host.gpu.driver for name, s in states.items() if s.host and s.host.gpu.driver}
    branches = {version.partition(".")[0] for version in told.values()}
    remedy = "install the same driver on every node, of the 580 branch"
    if len(branches) > 1:
        yield Spot(rows.DRIVER, tuple(told)).error(
            "the nodes have drivers of different branches",
            remedy,
            expected="one version",
            found=_each(told),
        )
    else:
        yield from _differs(rows.DRIVER, remedy, told)


def _firmware(manifest: ClusterManifest, states: Mapping[str, NodeState]) -> Iterator[Finding]:
    """NIC firmware of the devices in use, equal everywhere; another than the usual is a note."""
    told: dict[str, str] = {}
    for node in manifest.nodes:
        listed = node.fabric.hcas if node.fabric else ()
        state = states.get(node.name)
        used = [hca for hca in state.hcas if hca.name in listed] if state else []
        versions = sorted({hca.firmware for hca in used})
        if "" in versions:
            yield Spot(rows.FIRMWARE, (node.name,)).unknown(
                "the NIC's firmware version could not be read", "ibstat on the node tells it"
            )
        elif versions:
            told[node.name] = ", ".join(versions)
    yield from _differs(rows.FIRMWARE, "update the NIC of every node: fwupdmgr update", told)
    other = tuple(name for name, version in told.items() if version != known.GOOD_FIRMWARE)
    if other:
        yield Spot(rows.FIRMWARE, other).note(
            "the NIC's firmware is not the one that most working pairs have",
            expected=known.GOOD_FIRMWARE,
            found=_each({name: told[name] for name in other}),
            remedy="nothing, if the link reaches its rate",
        )


def _clocks(states: Mapping[str, NodeState]) -> Iterator[Finding]:
    """Clocks of nodes are together; each reading is only as sure as its round trip was short."""
    ahead: dict[str, float] = {}
    within_s = 0.0
    for name, state in states.items():
        if state.host is None or state.host.clock_ahead_s is None:
            yield Spot(rows.CLOCK, (name,)).unknown(
                "the node's clock could not be read", "date on the node"
            )
            continue
        ahead[name] = state.host.clock_ahead_s
        within_s = max(within_s, state.host.clock_within_s)
    if len(ahead) > 1 and max(ahead.values()) - min(ahead.values()) > CLOCKS_APART_S + 2 * within_s:
        found = ", ".join(f"{name} {seconds:+.1f} s" for name, seconds in ahead.items())
        yield Spot(rows.CLOCK, tuple(ahead)).warning(
            "the clocks of the nodes are apart",
            expected=f"within {CLOCKS_APART_S:g} s of each other",
            found=f"{found}, against this machine",
            remedy="let every node keep time: timedatectl set-ntp true",
        )


def _each(told: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in told.items())
