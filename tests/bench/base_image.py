"""An image of the lab with a large layer over it, as an OCI layout: what real ones weigh."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from builder.digest import Hasher, digest_bytes
from builder.edges.layout import LayoutSource, write_layout
from builder.image_section import ConfigChanges
from builder.oci.assemble import Assembly, assemble, manifest_of
from builder.oci.model import OCI_LAYER_GZIP, Descriptor, Layer, Platform
from builder.oci.select import select_manifest
from builder.oci.tar import write_tar
from tests.bench.ballast import EPOCH, gzip_chunks, noise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from builder.digest import Digest
    from builder.oci.assemble import OwnLayer
    from builder.oci.tar import TarEntry


def write_base(folder: Path, lab_base: Path, *, size_mb: int) -> Digest:
    """The manifest's digest of a layout written to `folder`: the lab's base and `size_mb` MB more.

    The same on every machine. Nothing that an engine or ssh does can compress it.
    """
    return write_image(folder, lab_base, noise(size_mb))


def write_image(
    folder: Path, lab_image: Path, entries: Iterable[TarEntry], *, gzip: bool = False
) -> Digest:
    """The manifest's digest of a layout: an image of the lab with one more layer of the entries."""
    source = LayoutSource(lab_image)
    base = select_manifest(source, None, Platform("linux", "amd64")).image
    made = assemble(Assembly(base, EPOCH, tuple(entries), (), ConfigChanges(), digest_bytes(b"")))
    (own,) = made.own
    layer = _compressed(own) if gzip else own.layer
    layers = (*made.image.layers[:-1], layer)
    image = replace(made.image, manifest=manifest_of(made.image.config, layers), layers=layers)

    @contextmanager
    def opened(descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        if descriptor == layer.descriptor:
            plain = write_tar(own.entries)
            yield gzip_chunks(plain) if gzip else plain
            return
        with source.open_blob(descriptor) as chunks:
            yield chunks

    write_layout(folder, image, opened)
    return image.manifest.descriptor.digest


def _compressed(own: OwnLayer) -> Layer:
    hasher = Hasher()
    for chunk in gzip_chunks(write_tar(own.entries)):
        hasher.update(chunk)
    descriptor = Descriptor(OCI_LAYER_GZIP, hasher.digest(), hasher.size_bytes)
    return Layer(descriptor, own.layer.diff_id)
