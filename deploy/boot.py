"""What `inv boot --install` puts on a node: a systemd unit, the program it runs, and its settings.

All of it is known from the manifest but the secret, which is made once and is the same on all
nodes. Nothing here touches a node.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.digest import digest_bytes, hex_of
from deploy.boot_node.facts import VERSION

if TYPE_CHECKING:
    from builder.manifest import ClusterManifest, Node

FOLDERS: Final = "/var/lib/sparklock/boot"
PORT_OFFSET: Final = 10
"""How far above the master port the copies of the program meet."""

LAST_PORT: Final = 65535
PYTHON: Final = "/usr/bin/python3"

UNIT: Final = """\
# Written by `inv boot --install` of sparklock, removed by `inv boot --remove`.
[Unit]
Description=sparklock: brings the ranks of cluster {cluster} back together after a restart
After=docker.service network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={python} -I {folder}/boot.pyz {folder}
Restart=on-failure
RestartSec=10
NoNewPrivileges=yes
PrivateTmp=yes
ProtectHome=yes
ProtectSystem=full

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class BootFile:
    """A file on a node; `mode` as chmod takes it."""

    path: str
    mode: str
    data: bytes


@dataclass(frozen=True, slots=True)
class BootSetup:
    """What a node has to have, the secret excepted; `version` tells people which program it is."""

    node: str
    unit: str
    folder: str
    version: str
    files: tuple[BootFile, ...]

    @property
    def secret_path(self) -> str:
        """Where the secret stands, readable by root alone."""
        return f"{self.folder}/secret"

    @property
    def unit_path(self) -> str:
        """Where systemd finds the unit."""
        return f"/etc/systemd/system/{self.unit}"

    def missing(self, digests: dict[str, str]) -> tuple[str, ...]:
        """The paths of files that are not there as they should be; `digests` are hex, by path."""
        return tuple(
            file.path
            for file in self.files
            if digests.get(file.path) != hex_of(digest_bytes(file.data))
        )


def boot_setup(manifest: ClusterManifest, node: Node, program: bytes) -> BootSetup:
    """What one node has to have so that it takes part in bringing the pair back."""
    folder = f"{FOLDERS}/{manifest.name}"
    unit = f"sparklock-{manifest.name}.service"
    version = f"{VERSION} ({hex_of(digest_bytes(program))[:12]})"
    text = UNIT.format(cluster=manifest.name, folder=folder, python=PYTHON)
    return BootSetup(
        node=node.name,
        unit=unit,
        folder=folder,
        version=version,
        files=(
            BootFile(f"{folder}/boot.pyz", "0644", program),
            BootFile(f"{folder}/boot.json", "0644", _settings(manifest, node, folder)),
            BootFile(f"{folder}/version", "0644", version.encode()),
            BootFile(f"/etc/systemd/system/{unit}", "0644", text.encode()),
        ),
    )


def boot_port(manifest: ClusterManifest) -> int:
    """The TCP port, on the fabric addresses, where the copies of the program meet."""
    port = manifest.serve.master_port
    return port + PORT_OFFSET if port + PORT_OFFSET <= LAST_PORT else port - PORT_OFFSET


def _settings(manifest: ClusterManifest, node: Node, folder: str) -> bytes:
    peers = [
        [item.name, "" if item.fabric is None else str(item.fabric.address)]
        for item in manifest.nodes
    ]
    values = {
        "cluster": manifest.name,
        "node": node.name,
        "rank": manifest.nodes.index(node),
        "docker_socket": node.docker_socket,
        "port": boot_port(manifest),
        "peers": peers,
        "folder": folder,
    }
    return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"
