"""Layers as they come: one pass over the stored bytes lists, checks and keeps what is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from builder.oci.model import Layer
    from builder.oci.tree import Entry
    from builder.sources import Blobs, ImageSource


@dataclass(frozen=True, slots=True)
class HardLink:
    """A hard link whose target stands in a layer below; both paths as in builder/oci/tree.py."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class LayerListing:
    """What one layer says.

    `entries` are in archive order, one per path (of duplicates the last), hard links inside the
    layer already as the files they name. `whiteouts` are the hidden paths, `opaques` the
    directories whose lower children are hidden. `unkept` are paths of files whose bytes a kept hard
    link needs and which were not kept: read again with these too (read_layer_of does).
    """

    layer: Layer
    entries: tuple[Entry, ...]
    links: tuple[HardLink, ...] = ()
    whiteouts: tuple[str, ...] = ()
    opaques: tuple[str, ...] = ()
    unkept: frozenset[str] = frozenset()


def read_layer(
    chunks: Iterable[bytes], layer: Layer, *, keep: Callable[[str], bool], blobs: Blobs
) -> LayerListing:
    """The listing of a layer from its stored bytes: plain tar, or gzip of one or more members.

    Checks digest, size and diff_id. The bytes of regular files for whose path `keep` is true go to
    `blobs`, and their digest to the entry. Memory grows with the number of entries only.
    Raises DigestMismatchError, SizeMismatchError, DiffIdMismatchError, MalformedLayerError,
    UnsafePathError or UnsupportedCompressionError.
    """
    raise NotImplementedError


def read_layer_of(
    source: ImageSource, layer: Layer, *, keep: Callable[[str], bool], blobs: Blobs
) -> LayerListing:
    """As read_layer, with the bytes from a source; reads twice when a kept hard link needs it."""
    raise NotImplementedError
