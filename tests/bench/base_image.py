"""The lab's base with a large layer over it, as an OCI layout: what a real base weighs."""

from __future__ import annotations

import random
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from builder.digest import digest_bytes
from builder.edges.layout import LayoutSource, write_layout
from builder.manifest import ConfigChanges
from builder.oci.assemble import Assembly, assemble
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from builder.oci.tar import LazyContent, TarEntry, TarKind, file_entry, write_tar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.digest import Digest
    from builder.oci.model import Descriptor

SEED: Final = 20260101
EPOCH: Final = 1767225600
MIB: Final = 2**20
TURN_BYTES: Final = 4099
"""How far the bytes of a file are turned against those of the file before."""

MAX_FILES: Final = MIB // TURN_BYTES
"""From here on two files would nearly be one; a larger base takes larger files."""


def write_base(folder: Path, lab_base: Path, *, size_mb: int) -> Digest:
    """The manifest's digest of a layout written to `folder`: the lab's base and `size_mb` MB more.

    The same on every machine. Nothing that an engine or ssh does can compress it: the files are one
    random block, turned, and each is longer than what gzip looks back.
    """
    source = LayoutSource(lab_base)
    base = select_manifest(source, None, Platform("linux", "amd64")).image
    made = assemble(
        Assembly(base, EPOCH, tuple(_entries(size_mb)), (), ConfigChanges(), digest_bytes(b""))
    )
    (own,) = made.own

    @contextmanager
    def opened(descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        if descriptor == own.layer.descriptor:
            yield write_tar(own.entries)
            return
        with source.open_blob(descriptor) as chunks:
            yield chunks

    write_layout(folder, made.image, opened)
    return made.image.manifest.descriptor.digest


def _entries(size_mb: int) -> Iterator[TarEntry]:
    """Some folder with files of about a MiB, `size_mb` times 10**6 bytes in all."""
    count = min(size_mb, MAX_FILES)
    size_bytes = size_mb * 10**6 // count
    block = random.Random(SEED).randbytes(size_bytes)  # noqa: S311 - ballast, no secret
    for path in ("opt", "opt/ballast"):
        yield TarEntry(path, TarKind.DIRECTORY, 0o755, EPOCH)
    for number in range(count):
        content = LazyContent(size_bytes, partial(_turned, block, number * TURN_BYTES))
        yield file_entry(f"opt/ballast/{number:03}", content, mode=0o644, mtime=EPOCH)


def _turned(block: bytes, at: int) -> Iterator[bytes]:
    view = memoryview(block)
    yield bytes(view[at:])
    yield bytes(view[:at])
