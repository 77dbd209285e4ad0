"""A node's machine, asked by one script in one session: what is cheap enough for every look."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from builder.privileges import RDMA_DEVICES, uses_rdma_devices
from deploy.parse_host import machine_facts
from deploy.serving import held_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from builder.manifest import ClusterManifest, Node
    from deploy.edges.ssh import NodeConnection
    from deploy.parse_host import MachineFacts
    from deploy.state import ContainerFacts

NO_PORT: Final = "none"
"""No port in hex."""

SCRIPT: Final = Path(__file__).with_name("host.sh")


def ask_host(
    manifest: ClusterManifest,
    node: Node,
    connection: NodeConnection,
    containers: Sequence[ContainerFacts] = (),
) -> MachineFacts:
    """What the node's machine is like now; raises NodeError.

    Who listens on the manifest's ports is asked of those that our own `containers` do not hold: it
    may take `sudo -n`, which is logged on the node.

    The node's /bin/sh reads the script from its stdin; it needs iproute2 and coreutils, and what
    those do not tell is unknown.
    """
    ports = {manifest.serve.port, manifest.serve.master_port} - held_ports(containers)
    devices = manifest.container.devices
    if not uses_rdma_devices(manifest):
        devices = tuple(path for path in devices if path != RDMA_DEVICES)
    paths = dict.fromkeys((*(mount.source for mount in manifest.container.mounts), *devices))
    arguments = (
        "|".join(f"{port:04X}" for port in sorted(ports)) or NO_PORT,
        manifest.model_path(node),
        *paths,
    )
    script = SCRIPT.read_bytes()
    asked_s = time.time()
    done = connection.run(("sh", "-s", "--", *arguments), stdin=script)
    told_s = time.time()
    output = done.stdout.decode(errors="replace")
    return machine_facts(output, asked_s=asked_s, told_s=told_s)
