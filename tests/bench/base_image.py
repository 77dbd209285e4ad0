"""An image of the lab with large layers over it, as an OCI layout: what real ones weigh."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from builder.digest import Hasher, digest_bytes
from builder.edges.layout import LayoutSource, write_layout
from builder.image_section import ConfigChanges
from builder.oci.assemble import Assembly, assemble, manifest_of
from builder.oci.model import OCI_LAYER_GZIP, Descriptor, Image, Layer, Platform
from builder.oci.select import select_manifest
from builder.oci.tar import write_tar
from tests.bench.ballast import EPOCH, gzip_chunks, noise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from builder.digest import Digest
    from builder.oci.assemble import OwnLayer
    from builder.oci.tar import TarEntry


def write_base(folder: Path, lab_base: Path, *, size_mb: int, layers: int = 1) -> Digest:
    """The manifest's digest of a layout written to `folder`: the lab's base and `size_mb` MB more.

    They are spread over plain layers. The same on every machine; nothing that an engine or ssh does
    can compress it.
    """
    return write_image(folder, lab_base, *(noise(size_mb // layers, n) for n in range(layers)))


def write_image(
    folder: Path, lab_image: Path, *layers: Iterable[TarEntry], gzip: bool = False
) -> Digest:
    """The digest of the manifest of an image of the lab, with a layer for each of the entries."""
    source = LayoutSource(lab_image)
    image = select_manifest(source, None, Platform("linux", "amd64")).image
    own: dict[Digest, OwnLayer] = {}
    for entries in layers:
        image, layer = _with_layer(image, entries, gzip=gzip)
        own[image.layers[-1].descriptor.digest] = layer

    @contextmanager
    def opened(descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        if descriptor.digest in own:
            plain = write_tar(own[descriptor.digest].entries)
            yield gzip_chunks(plain) if gzip else plain
            return
        with source.open_blob(descriptor) as chunks:
            yield chunks

    write_layout(folder, image, opened)
    return image.manifest.descriptor.digest


def _with_layer(image: Image, entries: Iterable[TarEntry], *, gzip: bool) -> tuple[Image, OwnLayer]:
    made = assemble(Assembly(image, EPOCH, tuple(entries), (), ConfigChanges(), digest_bytes(b"")))
    (own,) = made.own
    layers = (*made.image.layers[:-1], _compressed(own) if gzip else own.layer)
    manifest = manifest_of(made.image.config, layers)
    return replace(made.image, manifest=manifest, layers=layers), own


def _compressed(own: OwnLayer) -> Layer:
    hasher = Hasher()
    for chunk in gzip_chunks(write_tar(own.entries)):
        hasher.update(chunk)
    descriptor = Descriptor(OCI_LAYER_GZIP, hasher.digest(), hasher.size_bytes)
    return Layer(descriptor, own.layer.diff_id)
