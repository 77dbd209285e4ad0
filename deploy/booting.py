"""boot: what the nodes do after a restart, installed, looked at, removed. No engine is needed."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from builder.edges.files import read_manifest, ssh_config_of
from deploy.boot import BootFile, boot_setup
from deploy.boot_errors import NotDeclaredError
from deploy.boot_reports import BootReport
from deploy.edges.boot import BootNode, program
from deploy.edges.master import Destination
from deploy.edges.ssh import NodeConnection
from deploy.together import each, failure_of, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from builder.errors import SparklockError
    from builder.manifest import ClusterManifest, Node
    from builder.read.loaded import LoadedManifest
    from deploy.boot import BootSetup
    from deploy.boot_reports import NodeBoot

PAIR = "pair"
SECRET_BYTES = 32


def look(file: Path) -> BootReport:
    """What is declared, and what every node in reach has of it; nothing is changed."""
    loaded = read_manifest(file)
    with _reached(loaded) as (nodes, unreached):
        found, unasked = each({name: node.look for name, node in nodes.items()})
    return _report(loaded.manifest, tuple(found.values()), (*unreached, *unasked))


def install(file: Path) -> BootReport:
    """Have the unit on every node, or on none that lacks it now when one cannot have it.

    A second time changes nothing. NotDeclaredError unless the manifest says `pair`.
    """
    loaded = read_manifest(file)
    if _declared(loaded.manifest) != PAIR:
        raise NotDeclaredError
    with _reached(loaded) as (nodes, unreached):
        failure = failure_of(unreached)
        if failure is not None:
            raise failure
        together({name: node.require for name, node in nodes.items()})
        together({name: node.require_python for name, node in nodes.items()})
        secret = _secret(together({name: node.secret for name, node in nodes.items()}))
        setups = _setups(loaded.manifest)
        tasks = {
            name: partial(node.install, BootFile(setups[name].secret_path, "0600", secret))
            for name, node in nodes.items()
        }
        done = together(tasks)
    return _report(loaded.manifest, tuple(done.values()), ())


def remove(file: Path) -> BootReport:
    """Have nothing of the unit on any node in reach; others are told in the report."""
    loaded = read_manifest(file)
    with _reached(loaded) as (nodes, unreached):
        tasks = {name: partial(_remove, node) for name, node in nodes.items()}
        done, undone = each(tasks)
    return _report(loaded.manifest, tuple(done.values()), (*unreached, *undone))


def _remove(node: BootNode) -> NodeBoot:
    node.require()
    return node.remove()


def _secret(there: Mapping[str, bytes]) -> bytes:
    """The secret that all nodes have, or a new one."""
    known = {*there.values()}
    first = next(iter(known))
    if len(known) == 1 and len(first) == 2 * SECRET_BYTES:
        return first
    return secrets.token_hex(SECRET_BYTES).encode()


def _setups(manifest: ClusterManifest) -> dict[str, BootSetup]:
    data = program()
    return {node.name: boot_setup(manifest, node, data) for node in manifest.nodes}


@contextmanager
def _reached(
    loaded: LoadedManifest,
) -> Iterator[tuple[Mapping[str, BootNode], Sequence[SparklockError]]]:
    """The nodes in reach, in the manifest's order, and why others are not; raises if none is."""
    manifest, config = loaded.manifest, ssh_config_of(loaded)
    setups = _setups(manifest)
    opened: dict[str, NodeConnection] = {}

    def reach(node: Node) -> None:
        where = Destination(node.name, node.ssh, config, manifest.ssh.connect_timeout_s)
        opened[node.name] = NodeConnection(where)

    try:
        _, unreached = each({node.name: partial(reach, node) for node in manifest.nodes})
        names = (node.name for node in manifest.nodes if node.name in opened)
        yield {name: BootNode(opened[name], setups[name]) for name in names}, unreached
    finally:
        together({name: connection.close for name, connection in opened.items()})


def _declared(manifest: ClusterManifest) -> str:
    return manifest.container.on_boot or "never"


def _report(
    manifest: ClusterManifest, nodes: tuple[NodeBoot, ...], failures: Sequence[SparklockError]
) -> BootReport:
    return BootReport(manifest.name, _declared(manifest), nodes, failure_of(failures))
