"""Files picked out of a donor: where each comes from, and where it goes in the base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builder.digest import Digest
    from builder.graft.packages import PackageRoot
    from builder.manifest import Graft
    from builder.oci.tree import ImageTree


@dataclass(frozen=True, slots=True)
class Pick:
    """One file out of a donor. `source` and `target` are tree paths, `mode` is 0o644 or 0o755."""

    donor: str
    package: str
    source: str
    target: str
    layer: Digest
    size_bytes: int
    mode: int
    content: Digest


def pick(donor: ImageTree, graft: Graft, base: PackageRoot, *, place: str) -> tuple[Pick, ...]:
    """The files of a graft, in the graft's order, found in the donor's own package.

    `base` is the same package in the base; `place` is the graft as an error names it,
    `cluster.toml: image.graft[0]`. Raises PickError with every file that cannot be taken:
    missing, not a regular file, or compiled bytecode. `target` is not yet resolved through the
    base's symlinks.
    """
    raise NotImplementedError
