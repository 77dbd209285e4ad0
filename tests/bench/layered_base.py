"""The lab's base with several large layers over it, as an OCI layout: for a first delivery."""

from __future__ import annotations

import random
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from builder.digest import digest_bytes
from builder.edges.layout import LayoutSource, write_layout
from builder.image_section import ConfigChanges
from builder.oci.assemble import Assembly, assemble
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from builder.oci.tar import LazyContent, TarEntry, TarKind, file_entry, write_tar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from builder.digest import Digest
    from builder.oci.model import Descriptor

SEED: Final = 20261130
EPOCH: Final = 1767225600
FILE_BYTES: Final = 10**6


def write_layered_base(folder: Path, lab_base: Path, *, size_mb: int, layers: int) -> Digest:
    """The manifest's digest of a layout: the lab's base and `size_mb` MB more in plain layers.

    The same on every machine, and nothing that an engine or ssh does can compress it.
    """
    source = LayoutSource(lab_base)
    image = select_manifest(source, None, Platform("linux", "amd64")).image
    own: dict[Digest, Sequence[TarEntry]] = {}
    for number in range(layers):
        entries = tuple(_entries(number, size_mb // layers))
        made = assemble(Assembly(image, EPOCH, entries, (), ConfigChanges(), digest_bytes(b"")))
        (layer,) = made.own
        own[layer.layer.descriptor.digest] = layer.entries
        image = made.image

    @contextmanager
    def opened(descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        if descriptor.digest in own:
            yield write_tar(own[descriptor.digest])
            return
        with source.open_blob(descriptor) as chunks:
            yield chunks

    write_layout(folder, image, opened)
    return image.manifest.descriptor.digest


def _entries(layer: int, files: int) -> Iterator[TarEntry]:
    """A folder with files of a MB, each of them bytes of its own."""
    for path in ("opt", "opt/layers", f"opt/layers/{layer}"):
        yield TarEntry(path, TarKind.DIRECTORY, 0o755, EPOCH)
    for number in range(files):
        content = LazyContent(FILE_BYTES, partial(_noise, f"{SEED} {layer} {number}"))
        yield file_entry(f"opt/layers/{layer}/{number:03}", content, mode=0o644, mtime=EPOCH)


def _noise(seed: str) -> Iterator[bytes]:
    yield random.Random(seed).randbytes(FILE_BYTES)  # noqa: S311 - ballast, no secret
