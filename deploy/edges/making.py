"""What a container's maker knows beyond the spec: its node's device files, and the API key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.secret import API_KEY
from deploy.rdma import DEVICES, PROGRAM, VERBS, rdma_device_paths

if TYPE_CHECKING:
    from builder.digest import JsonValue
    from builder.secret import Secret
    from deploy.edges.ssh import NodeConnection
    from deploy.launch import ContainerSpec


class ContainerMaker:
    """Turns a spec into the request for one node's engine; raises NodeError."""

    def __init__(self, connection: NodeConnection, api_key: Secret | None) -> None:
        self._connection = connection
        self._api_key = api_key

    def request(self, spec: ContainerSpec) -> dict[str, JsonValue]:
        """The body of the engine's create call, labels left out; it holds the API key."""
        secrets = {} if self._api_key is None else {API_KEY: self._api_key}
        return spec.request(self._rdma_devices(spec), secrets)

    def _rdma_devices(self, spec: ContainerSpec) -> tuple[str, ...]:
        if not spec.hcas:
            return ()
        argv = ("sh", "-c", PROGRAM, "sh", VERBS, DEVICES)
        told = self._connection.run(argv).stdout.decode(errors="replace")
        return rdma_device_paths(spec.node, spec.hcas, told)
