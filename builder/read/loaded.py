"""A manifest as read: its values, where they stand, and the files beside it that it names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from builder.manifest import cluster_digest
from builder.read.problems import loc_of, loc_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from builder.digest import Digest
    from builder.lock import ModelFile
    from builder.manifest import ClusterManifest
    from builder.read.lines import Loc


@dataclass(frozen=True, slots=True)
class LoadedManifest:
    """A valid manifest and its surroundings, as they were when it was read.

    `path` is as given, and errors show it that way. `own_files` are the [[image.file]] sources, the
    diffs and the plugins' modules by their path from the manifest's folder; `model_files` all files
    under [model].files by their path from there, sorted. `data` are the bytes of the manifest's own
    file.
    """

    manifest: ClusterManifest
    path: Path
    lines: Mapping[Loc, int]
    own_files: Mapping[str, ModelFile]
    model_files: tuple[ModelFile, ...]
    data: bytes = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """The file's name as errors show it."""
        return str(self.path)

    @property
    def folder(self) -> Path:
        """The manifest's folder: where its relative paths start."""
        return self.path.parent

    @property
    def lock_path(self) -> Path:
        """As lock_beside."""
        return lock_beside(self.path)

    @property
    def cluster_digest(self) -> Digest:
        """The digest of the canonical manifest."""
        return cluster_digest(self.manifest)

    def place(self, location: str) -> str:
        """A location such as `nodes[1].fabric` with file and line, as errors begin."""
        return place_text(self.name, self.lines, loc_of(location))


def lock_beside(manifest_path: Path) -> Path:
    """The lock that belongs to a manifest; it need not exist."""
    return manifest_path.parent / "lockfile.json"


def place_text(name: str, lines: Mapping[Loc, int], loc: Loc) -> str:
    """A place such as `cluster.toml:37: nodes[1].fabric.address`."""
    place = f"{name}:{line_of(lines, loc)}"
    return f"{place}: {loc_text(loc)}" if loc else place


def line_of(lines: Mapping[Loc, int], loc: Loc) -> int:
    """The 1-based line of a place; what is not in the text has the line of its table."""
    return next(lines[loc[:end]] for end in range(len(loc), -1, -1) if loc[:end] in lines)
