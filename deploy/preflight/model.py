"""Rules on the model: files that nobody sends are there, and there is room for those that come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.actions import size_text
from deploy.plan import missing_model
from deploy.preflight import rows
from deploy.preflight.finding import Spot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.manifest import Node
    from deploy.preflight.finding import Finding
    from deploy.state import NodeState
    from deploy.wanted import Wanted


def missing(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Finding]:
    """Model files that are missing and that nobody has told us where to take from."""
    if wanted.manifest.model.files is not None:
        return
    folder = wanted.manifest.model_path(node)
    there = {facts.path: facts for facts in state.model_files}
    for file in missing_model(wanted, state):
        found = there.get(file.path)
        yield Spot(rows.MODEL, (node.name,), at=f"{folder}/{file.path}").error(
            "the model file is not the locked one" if found else "the model file is missing",
            expected=file.digest,
            found=(found.digest or f"{found.size_bytes} bytes") if found else "",
            remedy=f"bring the locked revision to the node: {_download(wanted, folder)}",
        )


def room(wanted: Wanted, node: Node, state: NodeState) -> Iterator[Finding]:
    """The disk of the model's folder holds what a deploy would send."""
    if wanted.manifest.model.files is None or state.host is None:
        return
    needed = sum(file.size_bytes for file in missing_model(wanted, state))
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


def _download(wanted: Wanted, folder: str) -> str:
    model = wanted.manifest.model
    return f"hf download {model.repo} --revision {model.revision} --local-dir {folder}"
