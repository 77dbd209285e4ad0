"""The way to a node's engine, for whoever reads images there."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from builder.edges.daemon_api import EngineSocket
from builder.edges.files import ssh_config_of
from deploy.edges.master import Destination
from deploy.edges.ssh import NodeConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.read.loaded import LoadedManifest


@contextmanager
def engine_of_node(loaded: LoadedManifest, name: str) -> Iterator[EngineSocket]:
    """The engine of a node of the manifest, through one connection that ends with this.

    Raises NodeError, or SshConfigMissingError.
    """
    manifest = loaded.manifest
    node = next(item for item in manifest.nodes if item.name == name)
    destination = Destination(
        node.name, node.ssh, ssh_config_of(loaded), manifest.ssh.connect_timeout_s
    )
    with NodeConnection(destination) as connection:
        path = connection.forward_socket(node.docker_socket)
        yield EngineSocket(path, partial(connection.socket_problem, node.docker_socket))
