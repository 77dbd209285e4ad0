"""The hybrid image: the base's layers as they are, one layer of ours, config and manifest.

Pure: the same Assembly gives the same bytes everywhere. CONFIG_FORMAT changes with any byte that
this module would write differently for the same input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.digest import Digest
    from builder.manifest import ConfigChanges
    from builder.oci.model import Image, ImageConfig, Layer
    from builder.oci.tar import TarEntry
    from builder.oci.tree import ImageTree

CONFIG_FORMAT: Final = 1
MAX_LAYERS: Final = 120
"""Moby's layer store stops at 125; a few are left for who builds on our image."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Everything the image is made of.

    `entries` are what we add, in any order, every parent directory included (parent_dirs);
    `whiteouts` are paths of the base to hide. `epoch` is Unix time in seconds. `inputs` is the
    digest of everything that determines the image; it becomes a label.
    """

    base: Image
    epoch: int
    entries: tuple[TarEntry, ...]
    whiteouts: tuple[str, ...]
    changes: ConfigChanges
    inputs: Digest


@dataclass(frozen=True, slots=True)
class OwnLayer:
    """A layer of ours: its entries in order, and what write_tar makes of them."""

    layer: Layer
    entries: tuple[TarEntry, ...]


@dataclass(frozen=True, slots=True)
class AssembledImage:
    """The image, the layer of ours (none if nothing is added), and what a person should be told.

    The raw bytes are `image.manifest.raw` and `image.config.raw`; the layer's are
    `write_tar(own[0].entries)`.
    """

    image: Image
    own: tuple[OwnLayer, ...]
    notes: tuple[str, ...] = ()


def assemble(assembly: Assembly) -> AssembledImage:
    """The image that the assembly makes, always of OCI media types.

    Raises TooManyLayersError, DiffIdClashError, UncanonicalConfigError, and what write_tar raises.
    """
    raise NotImplementedError


def epoch_of(config: ImageConfig, *, place: str) -> int:
    """The config's `created` as Unix time in whole seconds; MalformedDocumentError if unusable."""
    raise NotImplementedError


def parent_dirs(tree: ImageTree, targets: Iterable[str], *, epoch: int) -> tuple[TarEntry, ...]:
    """Every directory above the targets, as entries for our layer, parents first.

    One that the base has keeps its mode, owner and mtime; a new one is 0755 0:0 at `epoch`. Engines
    disagree about directories that a layer leaves out (image-spec#737), so none is. `targets` are
    resolved paths (resolve_destination); those of whiteouts belong among them.
    """
    raise NotImplementedError


def resolve_destination(tree: ImageTree, path: str) -> str:
    """Where a file for `path` must be written, relative to the root.

    Directories on the way are resolved through the base's symlinks: a layer that writes below
    `lib -> usr/lib` replaces the link by a directory. A symlink at the path itself is replaced.
    Raises TargetIsDirectoryError, ParentIsFileError or TargetLoopError.
    """
    raise NotImplementedError


def stale_pyc(tree: ImageTree, paths: Iterable[str]) -> tuple[str, ...]:
    """The base's compiled files of the given Python files, sorted: each needs a whiteout.

    An "unchecked" compiled file would run the old code in place of the new.
    """
    raise NotImplementedError
