"""The text of a cluster.toml, turned to a lab's nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tomlkit
from tomlkit.items import AoT, InlineTable, Table

if TYPE_CHECKING:
    from deploy.lab.spec import LabSpec, NodeSpec


def lab_manifest(text: str, spec: LabSpec, ssh_config: str | None = None) -> str:
    """The manifest with the lab's nodes and ssh_config; comments and all else stay as they were.

    The result belongs into `spec.root`, where its relative paths begin; for another folder give
    the `ssh_config` as seen from there. What a node has beside name, ssh and fabric is kept for
    the node of the same place; when the number of nodes changes, so does tensor_parallel.
    """
    document = tomlkit.parse(text)
    document.setdefault("ssh", tomlkit.table())["config"] = (
        ssh_config or f"{spec.folder}/ssh_config"
    )
    before = document.get("nodes", [])
    after = AoT([])
    for index, node in enumerate(spec.nodes):
        table = before[index] if index < len(before) else tomlkit.table()
        _describe(table, node)
        after.append(table)
    if len(before) != spec.node_count:
        document["serve"]["tensor_parallel"] = spec.node_count
    document["nodes"] = after
    return tomlkit.dumps(document)


def _describe(table: Table, node: NodeSpec) -> None:
    first, second = node.halves
    fabric = tomlkit.table()
    fabric["address"] = str(first.address)
    fabric["netdev"] = first.netdev
    fabric["hcas"] = [half.hca for half in node.halves]
    twin: InlineTable = tomlkit.inline_table()
    twin["address"] = str(second.address)
    twin["netdev"] = second.netdev
    fabric["twin"] = twin
    table["name"] = node.name
    table["ssh"] = node.name
    table["fabric"] = fabric
