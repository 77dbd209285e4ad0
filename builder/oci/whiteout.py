"""Stacking layers: what a container sees of them, by the OCI rules for whiteouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from builder.oci.layers import LayerListing
    from builder.oci.model import Layer
    from builder.oci.tree import ImageTree
    from builder.sources import Blobs, ImageSource


def stack(listings: Iterable[LayerListing]) -> ImageTree:
    """The filesystem of the layers, bottom first.

    Whiteouts and opaque markers hide what lies below, never their own layer. A file or link that
    replaces a directory removes its children. A path below a symlink or file replaces that by a
    directory, as overlay does; the link is not followed. Raises DanglingHardLinkError.
    """
    raise NotImplementedError


def read_tree(
    source: ImageSource,
    layers: Iterable[Layer],
    *,
    keep: Callable[[str], bool],
    blobs: Blobs,
    seen: Callable[[Layer], None] = lambda _layer: None,
) -> ImageTree:
    """The stacked filesystem of an image, with the wanted files' bytes in `blobs`.

    `seen` is called before each layer is read. Bytes of kept files are there also when the path is
    a hard link, into its own layer or one below.
    """
    raise NotImplementedError
