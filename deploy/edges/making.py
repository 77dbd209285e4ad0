"""What only the node knows of a container that is to be made there: its RDMA devices' files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.rdma import DEVICES, PROGRAM, VERBS, rdma_device_paths

if TYPE_CHECKING:
    from builder.digest import JsonValue
    from deploy.edges.ssh import NodeConnection
    from deploy.launch import ContainerSpec


class ContainerMaker:
    """Turns a spec into the request for one node's engine; raises NodeError."""

    def __init__(self, connection: NodeConnection) -> None:
        self._connection = connection

    def request(self, spec: ContainerSpec) -> dict[str, JsonValue]:
        """The body of the engine's create call, labels left out."""
        return spec.request(self._rdma_devices(spec))

    def _rdma_devices(self, spec: ContainerSpec) -> tuple[str, ...]:
        if not spec.hcas:
            return ()
        argv = ("sh", "-c", PROGRAM, "sh", VERBS, DEVICES)
        told = self._connection.run(argv).stdout.decode(errors="replace")
        return rdma_device_paths(spec.node, spec.hcas, told)
