"""Whether what a container executes is there: entrypoint, node script, `vllm`, interpreters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builder.graft.findings import BadCommand
    from builder.oci.model import Platform
    from builder.oci.tree import ImageTree


@dataclass(frozen=True, slots=True)
class Launch:
    """How containers of the image are started.

    `entrypoint`, `workdir` and `path` (the variable PATH) are the image configuration's own after
    our changes; `mounts` are the absolute targets of the bind mounts.
    """

    entrypoint: tuple[str, ...]
    workdir: str
    path: str
    node_script: str | None
    mounts: tuple[str, ...]
    platform: Platform


def check_commands(tree: ImageTree, launch: Launch) -> tuple[BadCommand, ...]:
    """What could not be executed in a container of the assembled tree; nothing if all is right.

    A file below a mount's target is provided by the node, so it is not judged.
    """
    raise NotImplementedError
