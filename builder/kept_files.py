"""Which files of an image a lock is made from; of all others only their names are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.graft.packages import VLLM, keep_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from builder.manifest import ClusterManifest


def kept_files(
    manifest: ClusterManifest, patched: frozenset[str] = frozenset()
) -> Callable[[str], bool]:
    """Whether grafting, editing and the closure check can need the file at a tree path.

    `patched` is how the paths end of the files that diffs change.
    """
    section = manifest.image
    packages = {VLLM}.union(
        (graft.package for graft in section.grafts),
        (register.package for register in section.registers),
        (patch.package for patch in section.patches if patch.package is not None),
    )
    keep = keep_for(packages, (file for graft in section.grafts for file in graft.files))
    names = {path.rpartition("/")[2] for path in patched}
    ends = tuple(f"/{path}" for path in patched)

    def kept(path: str) -> bool:
        return keep(path) or (path.rpartition("/")[2] in names and f"/{path}".endswith(ends))

    return kept if patched else keep
