"""A lab as a whole: up, down, status. Up and down may be repeated, and follow a crash or reboot."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy.lab import access, cgroups, disks, fabric, links, network, nodes
from deploy.lab.errors import (
    LabElsewhereError,
    LabSpecError,
    LeftoverError,
    NodeOffError,
    NodeStartError,
    NotRootError,
)
from deploy.lab.node_init import RECORD_FILE
from deploy.lab.processes import running_module
from deploy.lab.runtime import may_raise_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import JsonValue
    from builder.progress import Progress
    from deploy.lab.nodes import NodeState
    from deploy.lab.processes import ProcessRecord
    from deploy.lab.spec import LabSpec, NodeSpec

HUB: Final = "deploy.lab.hub"
SPEC_FILE: Final = "lab.json"
COPYING_DRIVERS: Final = ("native", "vfs")


@dataclass(frozen=True, slots=True)
class LabState:
    """A lab as observed."""

    spec: LabSpec
    nodes: tuple[NodeState, ...]

    @property
    def healthy(self) -> bool:
        """Whether every node can be used."""
        return all(node.healthy for node in self.nodes)

    def text(self) -> str:
        """One line per node, then how to get there."""
        lines = [node.text() for node in self.nodes]
        if self.healthy:
            lines.append(f"ssh -F {self.spec.ssh_config} {self.nodes[0].name}")
        return "\n".join(lines)

    def as_json(self) -> JsonValue:
        """The state as a JSON object."""
        return {
            "name": self.spec.name,
            "healthy": self.healthy,
            "ssh_config": str(self.spec.ssh_config),
            "nodes": [asdict(node) for node in self.nodes],
        }


@dataclass(frozen=True, slots=True)
class LabRemoved:
    """A lab that is gone."""

    spec: LabSpec
    processes: int

    def text(self) -> str:
        """One line."""
        if not self.processes:
            return f"lab {self.spec.name}: nothing was running, nothing is left"
        return f"lab {self.spec.name}: removed"

    def as_json(self) -> JsonValue:
        """The same as a JSON object."""
        return {"name": self.spec.name, "was_running": self.processes > 0}


def lab_up(spec: LabSpec, progress: Progress) -> LabState:
    """The lab, healthy. What runs well stays; a node that does not is restarted with its disk.

    NodeStartError or LabCommandError, with the end of the log that tells why.
    """
    with _locked(spec):
        if _differs(spec):
            progress.note("the lab that runs is another one: it is taken down first")
            _remove(spec)
        spec.path.mkdir(parents=True, exist_ok=True)
        progress.stage(f"Lab {spec.name}: {spec.node_count} nodes on this machine")
        if not may_raise_limits():
            progress.note("this machine may raise no resource limit: containers have its own")
        (spec.path / SPEC_FILE).write_text(_shape(spec))
        access.write_access(spec)
        hub = _hub(spec)
        with ThreadPoolExecutor(spec.node_count) as pool:
            states = tuple(pool.map(lambda node: _ensure(spec, node, hub, progress), spec.nodes))
    return LabState(spec, states)


def running_spec(spec: LabSpec) -> LabSpec:
    """The description with as many nodes as the lab that runs in its place; unchanged if none."""
    try:
        nodes_there = json.loads((spec.path / SPEC_FILE).read_text())["nodes"]
        return replace(spec, node_count=len(nodes_there))
    except (OSError, ValueError, LookupError, TypeError, LabSpecError):
        return spec


def lab_status(spec: LabSpec) -> LabState:
    """The lab as it is now; nothing is changed."""
    with ThreadPoolExecutor(spec.node_count) as pool:
        return LabState(spec, tuple(pool.map(lambda node: nodes.observe(spec, node), spec.nodes)))


def lab_off(spec: LabSpec, name: str) -> LabState:
    """The lab after a node lost its power; LabSpecError if there is no such node.

    NodeOffError if it is off already.
    """
    with _locked(spec):
        node = spec.node(name)
        if nodes.running(node.folder / RECORD_FILE) is None:
            raise NodeOffError(name)
        nodes.power_off(node)
    return lab_status(spec)


def lab_down(spec: LabSpec) -> LabRemoved:
    """What was removed: no process, namespace, link, mount, cgroup or file of the lab is left.

    LeftoverError names what could not be removed.
    """
    with _locked(spec):
        return LabRemoved(spec, _remove(spec))


def _hub(spec: LabSpec) -> ProcessRecord:
    """The hub's process; when it is new, no node is on any more, for none is connected."""
    record = nodes.running(nodes.hub_record(spec))
    if record is not None and set(spec.uplinks) <= network.link_names():
        return record
    _end_processes(spec)
    other = _other_lab(spec)
    if other is not None:
        raise LabElsewhereError(spec.name, other)
    return nodes.start_hub(spec)


def _other_lab(spec: LabSpec) -> Path | None:
    """The folder of a lab that is not this one and has its links; asked when this one is down."""
    if network.link_names().isdisjoint(spec.uplinks):
        return None
    for hub, record in running_module(HUB, Path("/")).items():
        if record.parent != spec.path and _name_of_lab(hub, record) == spec.name:
            return record.parent
    return None


def _name_of_lab(hub: ProcessRecord, record: Path) -> str | None:
    """The name of a hub's lab; None if it is in a container, whose links are its own, or gone."""
    try:
        if not Path(f"/proc/{hub.pid}/root").samefile("/"):
            return None
        return str(json.loads(record.with_name(SPEC_FILE).read_text())["name"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _ensure(spec: LabSpec, node: NodeSpec, hub: ProcessRecord, progress: Progress) -> NodeState:
    links.mend(spec, node)
    state = nodes.observe(spec, node)
    if state.healthy and disks.small_disks(node):  # whoever gave it them was killed
        state = replace(state, problem="folders of it have small disks")
    if state.healthy:
        fabric.write_devices(node.folder / "infiniband", node.halves)
        return state
    if state.pid is not None:
        progress.note(f"{node.name} is restarted: {state.problem}")
    nodes.power_off(node)
    nodes.start_node(spec, node, hub)
    state = nodes.observe(spec, node)
    if not state.healthy:
        log = node.folder / "log" / "sshd"
        raise NodeStartError(node.name, "it is on, but ssh does not get in", log, state.problem)
    progress.note(state.text())
    if state.storage_driver in COPYING_DRIVERS:
        progress.note(f"{node.name}: this disk carries no overlay, so every layer is a full copy")
    return state


def _end_processes(spec: LabSpec) -> int:
    """How many processes, nodes and hub, had to be ended."""
    ended = 0
    for module in ("deploy.lab.node_init", links.RELAY, HUB):
        for record in running_module(module, spec.path):
            if not record.kill(nodes.END_TIMEOUT_S):
                raise LeftoverError([f"process {record.pid}"], place=f"lab {spec.name}")
            ended += 1
    return ended


def _remove(spec: LabSpec) -> int:
    ended = _end_processes(spec)
    if _other_lab(spec) is None:  # else links and cgroups are its, and none are ours
        network.remove_links(spec.uplinks)
        left = cgroups.remove(spec.cgroup)
        if left:
            raise LeftoverError([str(path) for path in left], place=f"lab {spec.name}")
    if spec.path.exists():
        shutil.rmtree(spec.path)
    return ended


def _shape(spec: LabSpec) -> str:
    """What a running lab must have in common with the wanted one to be it."""
    return json.dumps(
        {"name": spec.name, "subnets": spec.subnets, "nodes": [n.engine for n in spec.nodes]}
    )


def _differs(spec: LabSpec) -> bool:
    file = spec.path / SPEC_FILE
    return file.exists() and file.read_text() != _shape(spec)


@contextmanager
def _locked(spec: LabSpec) -> Iterator[None]:
    """Nothing; inside the block nobody else changes a lab of this repository.

    The lock is on the repository's folder itself: it needs no file, and the kernel gives it back
    when its holder dies.
    """
    if os.geteuid() != 0:
        raise NotRootError
    descriptor = os.open(spec.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
