"""Rules on the model: the files that come have room, can be written, and disturb nobody."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from deploy.actions import size_text
from deploy.preflight import rows
from deploy.preflight.finding import Spot
from deploy.weights import missing_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.manifest import Node
    from deploy.host import OtherContainer
    from deploy.preflight.finding import Finding
    from deploy.state import ModelObstacle, NodeState
    from deploy.wanted import Wanted


def writable(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Finding]:
    """Files can be put into the model's folder, where some are missing."""
    if state.model_obstacle:
        folder = wanted.manifest.model_path(node)
        yield Spot(rows.MODEL, (node.name,)).error(
            "the model's files cannot be brought to their folder",
            expected=f"a folder that the ssh user may write: {folder}",
            found=state.model_obstacle.found,
            remedy=f"on the node: {_way(state.model_obstacle, folder)}; or set model_path of the "
            "node to another folder",
        )


def _way(obstacle: ModelObstacle, folder: str) -> str:
    path = quote(obstacle.path)
    if obstacle.kind == "blocked":
        return f"sudo mv -- {path} {quote(obstacle.path + '.aside')}"
    if obstacle.kind == "read-only":
        return f"have the disk mounted for writing (df {path} names it)"
    if not f"{obstacle.path}/".startswith(f"{folder}/"):
        return f'sudo install -d -o "$USER" {quote(folder)}'
    return f'sudo chown -R "$USER" {quote(folder)} && chmod -R u+rwX {quote(folder)}'


def unshared(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Finding]:
    """No file is replaced that somebody else's running container has.

    A container with a folder above the model's is not taken for one that reads the model.
    """
    there = {file.path for file in state.model_files}
    replaced = [file.path for file in missing_model(wanted, state) if file.path in there]
    folder = wanted.manifest.model_path(node)
    users = [item for item in state.others if item.running and _has(item, folder)]
    if replaced and users:
        names = ", ".join(
            f"{item.name} of the sparklock cluster {item.cluster}" if item.cluster else item.name
            for item in users
        )
        yield Spot(rows.MODEL, (node.name,)).error(
            "model files would be replaced under a container that is not this cluster's",
            expected=f"{folder} for this cluster alone, or with the locked files",
            found=f"{names} runs with it; {len(replaced)} files differ, such as {replaced[0]}",
            remedy="set model_path of the node to a folder of its own, or stop that container",
        )


def _has(container: OtherContainer, folder: str) -> bool:
    return any(f"{mount}/".startswith(f"{folder}/") for mount in container.mounts)


def visible(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Finding]:
    """All of the model lies in its folder, which is what the container gets."""
    if state.model_hidden:
        folder = quote(wanted.manifest.model_path(node))
        yield Spot(rows.MODEL, (node.name,)).error(
            "a model file is a link out of the model's folder, and the container has only that",
            expected="files, or links that stay in the folder",
            found=state.model_hidden,
            remedy=f"on the node: cp -rL -- {folder} {folder}-files, and set model_path to that; "
            "or set it to an empty folder: inv weights brings the model there",
        )


def room(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Finding]:
    """The disk of the model's folder holds what a deploy would send."""
    if state.host is None:
        return
    missing = sum(file.size_bytes for file in missing_model(wanted, state))
    needed = max(0, missing - state.model_beside_bytes)  # a part that came has its room
    free, spot = state.host.model_free_bytes, Spot(rows.MODEL, (node.name,))
    folder = wanted.manifest.model_path(node)
    if needed and free is None:
        yield spot.unknown(
            "free space for the model could not be read", f"on the node: df -h {folder}"
        )
    elif free is not None and needed > free:
        yield spot.error(
            "too little free space for the model",
            expected=f"at least {size_text(needed)} for {folder}",
            found=size_text(free),
            remedy=f"make room on the node (df -h {folder}), or set model_path of the node to a "
            "folder on another disk",
        )
