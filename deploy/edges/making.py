"""What a container's maker knows beyond the spec: its node's device files, and the API key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.secret import API_KEY
from deploy.launch import Made
from deploy.rdma import DEVICES, PROGRAM, VERBS, rdma_device_paths

if TYPE_CHECKING:
    from builder.secret import Secret
    from deploy.actions import CreateContainer
    from deploy.edges.engine import Engine
    from deploy.edges.ssh import NodeConnection
    from deploy.launch import ContainerSpec


class ContainerMaker:
    """Makes the containers of one node; raises NodeError."""

    def __init__(self, connection: NodeConnection, engine: Engine, api_key: Secret | None) -> None:
        self._connection = connection
        self._engine = engine
        self._api_key = api_key

    def make(self, action: CreateContainer) -> None:
        """Create a container, and the volume for its caches if that is not there."""
        from deploy.edges.volumes import make_volume, open_folders  # noqa: PLC0415 - a look makes none

        spec = action.spec
        secrets = {} if self._api_key is None else {API_KEY: self._api_key}
        request = spec.request(Made(self._rdma_devices(spec), secrets, action.cache))
        if action.cache:
            make_volume(self._engine, spec.cluster, action.cache)
        self._engine.create(action.name, {**request, "Labels": dict(action.labels)})
        if action.cache:
            open_folders(self._engine, action.name)

    def _rdma_devices(self, spec: ContainerSpec) -> tuple[str, ...]:
        if not spec.hcas:
            return ()
        argv = ("sh", "-c", PROGRAM, "sh", VERBS, DEVICES)
        told = self._connection.run(argv).stdout.decode(errors="replace")
        return rdma_device_paths(spec.node, spec.hcas, told)
