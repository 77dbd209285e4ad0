"""One node in the hands of a test: what can happen to a machine, done on purpose."""

from __future__ import annotations

import shutil
import signal
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deploy.lab import access, disks, fabric, links, nodes
from deploy.lab.errors import NodeOffError
from deploy.lab.node_init import RECORD_FILE, SSHD_FILE
from deploy.lab.processes import programs_inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from deploy.lab.spec import LabSpec, NodeSpec


@dataclass(frozen=True, slots=True)
class LabNode:
    """Control over one node of a lab that is up; `lab_up` repairs whatever was done here."""

    spec: LabSpec
    name: str

    @property
    def node(self) -> NodeSpec:
        """The node's description."""
        return self.spec.node(self.name)

    @property
    def root(self) -> Path:
        """The node's root folder, as the machine reaches it; NodeOffError if it is off."""
        return nodes.inside(self.node, "/")

    @property
    def infiniband(self) -> Path:
        """The folder that the node sees as /sys/class/infiniband."""
        return self.node.folder / "infiniband"

    def run(self, argv: Sequence[str]) -> str:
        """What a command printed on the node; LabCommandError unless it ended with status 0."""
        return nodes.run_checked(self.spec, self.node, argv)

    def power_off(self) -> None:
        """Nothing; everything in the node has ended at once. Its disk stays."""
        nodes.power_off(self.node)

    def power_on(self) -> None:
        """Nothing; the node is on again, with its disk and both services."""
        hub = nodes.running(nodes.hub_record(self.spec))
        if hub is None:  # then nothing of the lab is on
            raise NodeOffError(self.name)
        nodes.power_off(self.node)
        nodes.start_node(self.spec, self.node, hub)

    def stop_engine(self, *, crash: bool = False) -> None:
        """Nothing; dockerd has ended: in order, its containers too, or by SIGKILL."""
        nodes.request(self.node, "crash" if crash else "stop", "engine")

    def start_engine(self) -> None:
        """Nothing; dockerd answers."""
        nodes.request(self.node, "start", "engine")
        nodes.await_service(self.node, "engine")

    def restart_engine(self, *, crash: bool = False) -> None:
        """Nothing; dockerd has ended, as in `stop_engine`, and answers again."""
        self.stop_engine(crash=crash)
        self.start_engine()

    def remove_container(self, name: str) -> None:
        """Nothing; a container is gone, running or not, as if somebody had removed it by hand."""
        self.run(["docker", "rm", "--force", name])

    @contextmanager
    def small_disk(self, folder: str, size_mib: int) -> Iterator[None]:
        """Nothing; inside the block the folder is an empty disk of this size.

        For `disks.ENGINE_DATA` the engine is restarted before and after, so that it has neither
        images nor containers on it, and those it had before come back stopped.
        """
        engine = folder == disks.ENGINE_DATA
        with ExitStack() as stack:
            if engine:
                self.stop_engine()
                stack.callback(self.start_engine)
            stack.enter_context(disks.small_disk(self.node, folder, size_mib))
            if engine:
                stack.callback(self.stop_engine)
                self.start_engine()
            yield

    @contextmanager
    def filled(self, folder: str, left_bytes: int = 0) -> Iterator[None]:
        """Nothing; inside the block the folder's small disk has at most this many bytes free."""
        with disks.filled(self.node, folder, left_bytes):
            yield

    @contextmanager
    def cut_from(self, *others: str) -> Iterator[None]:
        """Nothing; inside the block these nodes lose what they send each other, in silence.

        The machine reaches all of them.
        """
        with links.cut_between(self.spec, self.node, *map(self.spec.node, others)):
            yield

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Nothing; inside the block no frame reaches the node or leaves it; nobody is told."""
        with links.cut_off(self.spec, self.node):
            yield

    @contextmanager
    def slow_link(self, delay_s: float = 0.0, loss: float = 0.0) -> Iterator[None]:
        """Nothing; inside the block frames to and from the node take longer, or are lost.

        `delay_s` is for each direction, `loss` the share of frames, 0 to 1.
        """
        with links.relayed(self.spec, self.node, delay_s=delay_s, loss=loss):
            yield

    @contextmanager
    def stalled_sshd(self) -> Iterator[None]:
        """Nothing; inside the block sshd and its sessions stand still: TCP connects, no more."""
        record = nodes.running(self.node.folder / RECORD_FILE)
        if record is None:
            raise NodeOffError(self.name)
        stopped = programs_inside(record, "sshd")
        for process in stopped:
            process.send(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                process.send(signal.SIGCONT)

    def stop_sshd(self) -> None:
        """Nothing; sshd has ended and so has every session."""
        nodes.request(self.node, "stop", "sshd")

    def start_sshd(self) -> None:
        """Nothing; sshd answers."""
        nodes.request(self.node, "start", "sshd")
        nodes.await_service(self.node, "sshd")

    @contextmanager
    def sshd_settings(self, *lines: str) -> Iterator[None]:
        """Nothing; inside the block sshd runs with these lines before its own, so that they win."""
        file = self.root / SSHD_FILE[1:]
        before = file.read_text()
        try:
            self._reconfigure(file, "\n".join((*lines, before)))
            yield
        finally:
            self._reconfigure(file, before)

    def _reconfigure(self, file: Path, text: str) -> None:
        file.write_text(text)
        self.stop_sshd()
        self.start_sshd()

    def change_host_key(self) -> None:
        """Nothing; sshd shows a key that known_hosts has not."""
        key = self.node.folder / "hostkey"
        key.unlink()
        access.make_key(key, f"{self.name}, changed")
        self.stop_sshd()
        self.start_sshd()

    def restore_host_key(self) -> None:
        """Nothing; sshd shows the key of known_hosts again."""
        shutil.copy(access.host_key(self.spec, self.node), self.node.folder / "hostkey")
        self.stop_sshd()
        self.start_sshd()

    def set_port_state(self, hca: str, text: str) -> None:
        """Nothing; the port's state file holds the text, such as `1: DOWN`."""
        fabric.set_port(self.infiniband, hca, "state", text)

    def set_port_file(self, hca: str, name: str, text: str) -> None:
        """Nothing; a file below ports/1, such as `rate` or `gids/3`, holds the text."""
        fabric.set_port(self.infiniband, hca, name, text)

    def set_device_file(self, hca: str, name: str, text: str) -> None:
        """Nothing; a file of the device, such as `fw_ver`, holds the text."""
        fabric.set_device(self.infiniband, hca, name, text)

    def add_counters(self, hca: str, increments: Mapping[str, int]) -> None:
        """Nothing; counters such as `port_xmit_data` (units of 4 bytes) have grown."""
        fabric.add_to_counters(self.infiniband, hca, increments)

    def remove_hca(self, hca: str) -> None:
        """Nothing; the device is gone."""
        fabric.remove_device(self.infiniband, hca)

    def restore_fabric(self) -> None:
        """Nothing; every device is there and healthy again."""
        fabric.write_devices(self.infiniband, self.node.halves)
