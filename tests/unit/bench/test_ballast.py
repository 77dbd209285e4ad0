from __future__ import annotations

import gzip
import zlib

import pytest

from builder.oci.tar import write_tar
from tests.bench.ballast import gzip_chunks, many_files, noise, software
from tests.bench.reading import PICKED

TARS = {"noise": noise, "software": software, "many files": many_files}


@pytest.mark.parametrize("kind", TARS)
def test_gzip_made_in_parts_is_one_member_of_the_same_bytes(kind: str) -> None:
    plain = b"".join(write_tar(TARS[kind](5)))
    stored = b"".join(gzip_chunks(write_tar(TARS[kind](5))))
    inflate = zlib.decompressobj(31)
    assert inflate.decompress(stored) == plain == gzip.decompress(stored)
    assert inflate.eof


def test_software_compresses_to_about_a_third() -> None:
    stored = sum(map(len, gzip_chunks(write_tar(software(20)))))
    assert 5_000_000 < stored < 9_000_000


def test_the_files_to_pick_are_in_a_large_layer() -> None:
    paths = {entry.path for entry in software(1000)}
    assert paths >= PICKED
