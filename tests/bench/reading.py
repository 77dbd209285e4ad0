"""Files out of a donor's large layer: how near reading comes to what its bytes allow."""

from __future__ import annotations

import hashlib
import tarfile
import time
from typing import TYPE_CHECKING, Final

from builder.edges.layout import LayoutSource
from builder.edges.store import BlobStore
from builder.oci.decompress import fastest_inflate
from builder.oci.layers import read_layers
from builder.oci.model import Platform
from builder.oci.select import select_manifest
from tests.bench.ballast import FOLDER, software
from tests.bench.measure import alternate
from tests.bench.result import Limit, Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.oci.model import Layer
    from tests.bench.workplace import Workplace

PLAIN_MB: Final = 1000
LONG_PLAIN_MB: Final = 3000
"""Stored, a GB."""

PICKED: Final = frozenset(f"{FOLDER}/{number:05}_00.py" for number in (0, 90, 180, 270, 360))
AT_ONCE: Final = 4
PIECE_BYTES: Final = 64 * 2**10
OUTPUT_BYTES: Final = 2**20


def measure(place: Workplace) -> Iterator[Result]:
    """Five files out of one layer, and out of four, beside those who do less or do it alone."""
    plain_mb = LONG_PLAIN_MB if place.long else PLAIN_MB
    name, digest = place.image("donor", "large-donor", software(plain_mb))
    way = Ways(LayoutSource(place.folder / name), BlobStore(place.folder / "picks"))
    layer = select_manifest(way.source, digest, Platform("linux", "amd64")).image.layers[-1]
    what = (
        f"five files out of a gzip layer of {layer.descriptor.size_bytes // 10**6} MB,"
        f" {plain_mb} MB unpacked, all digests checked"
    )
    path = way.source.path(layer.descriptor.digest)
    ours, alone, library = alternate(
        (
            lambda _round: way.read([layer]),
            lambda _round: seconds_to_decode(path),
            lambda _round: seconds_of_tarfile(path),
        ),
        rounds=3 if place.long else 5,
    )
    yield Result(
        name="donor-decoder",
        what=what,
        yardstick="ISA-L decompressing and sha256 of the plain bytes, one thread, nothing else",
        unit="s",
        ours=ours,
        theirs=alone,
        limit=Limit("ratio", 1 / 0.6),
        note="ours hashes beside, on a thread, and hashes the stored bytes too",
    )
    yield Result(
        name="donor-tarfile",
        what=what,
        yardstick="Python's tarfile as a stream, which checks no digest",
        unit="s",
        ours=ours,
        theirs=library,
        limit=Limit("ratio", 1 / 1.5),
    )
    together, each = alternate(
        (
            lambda _round: way.read([layer] * AT_ONCE),
            lambda _round: sum(way.read([layer]) for _ in range(AT_ONCE)),
        ),
        rounds=2,
    )
    yield Result(
        name="donor-layers",
        what=f"{AT_ONCE} such layers at once",
        yardstick="one after the other",
        unit="s",
        ours=together,
        theirs=each,
        note="one alone keeps nearly two cores busy; more cores gain more",
    )


class Ways:
    """Our way: as resolving reads layers, the picked files into a store."""

    def __init__(self, source: LayoutSource, store: BlobStore) -> None:
        self.source = source
        self._store = store

    def read(self, layers: list[Layer]) -> float:
        """Seconds to list the layers and to store what is picked."""
        wanted = [(layer, PICKED.__contains__) for layer in layers]
        started = time.perf_counter()
        found = list(read_layers(self.source, wanted, self._store))
        elapsed_s = time.perf_counter() - started
        for listing in found:
            kept = {entry.path for entry in listing.entries if entry.content is not None}
            assert kept == PICKED, kept
        return elapsed_s


def seconds_to_decode(path: Path) -> float:
    """What no reader that checks a diff_id on one thread can be faster than."""
    started = time.perf_counter()
    inflate = fastest_inflate().decompressobj(31)
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            while piece:
                hasher.update(inflate.decompress(piece, OUTPUT_BYTES))
                piece = inflate.unconsumed_tail
    assert inflate.eof
    return time.perf_counter() - started


def seconds_of_tarfile(path: Path) -> float:
    """The same files by Python's own module."""
    started = time.perf_counter()
    found = 0
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            if member.name in PICKED:
                content = archive.extractfile(member)
                assert content is not None
                found += len(content.read()) > 0
    assert found == len(PICKED)
    return time.perf_counter() - started
