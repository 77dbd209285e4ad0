"""The limits that the documents state are those that hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.edges.files import MAX_TEXT_BYTES
from builder.graft.syntax import MAX_SOURCE_BYTES
from builder.json_text import MAX_DEPTH
from builder.oci.assemble import MAX_LAYERS
from builder.oci.limits import (
    FREE_PLAIN_BYTES,
    MAX_ENTRIES,
    MAX_EXPANSION,
    MAX_IMAGE_LAYERS,
    MAX_PATH_BYTES,
    MAX_READ_BYTES,
    ExpansionError,
    expanded,
)
from builder.oci.select import MAX_DOCUMENT_BYTES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-it-works.md"


def test_the_page_states_every_limit() -> None:
    section = (
        PAGE.read_text().split("## What an image may ask of this machine\n")[1].split("\n## ")[0]
    )
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", section, re.MULTILINE)[2:]

    assert [limit for _, limit in rows] == [
        f"{MAX_DOCUMENT_BYTES // 2**20} MiB",
        f"{MAX_DEPTH}",
        f"{MAX_IMAGE_LAYERS}, and {MAX_LAYERS} with ours",
        f"{MAX_ENTRIES}",
        f"{MAX_PATH_BYTES} bytes",
        f"{MAX_EXPANSION} times its size, or {FREE_PLAIN_BYTES // 2**30} GiB if that is more",
        f"{MAX_READ_BYTES // 2**20} MiB, and {MAX_SOURCE_BYTES // 2**20} MiB as Python source",
        "128 MiB",
    ]
    assert f"may have {MAX_TEXT_BYTES // 2**20} MiB each" in section


@pytest.mark.parametrize("stored_bytes", [0, 1, FREE_PLAIN_BYTES // MAX_EXPANSION])
def test_a_few_stored_bytes_may_become_what_is_free(stored_bytes: int) -> None:
    chunk = bytes(2**20)
    plain = expanded((chunk for _ in range(10**6)), stored_bytes=stored_bytes)

    with pytest.raises(ExpansionError) as caught:
        for _ in plain:
            pass
    assert caught.value.limit_bytes == FREE_PLAIN_BYTES


def test_many_stored_bytes_may_become_a_hundred_times_as_many() -> None:
    plain = expanded([bytes(2**20)] * 3000, stored_bytes=FREE_PLAIN_BYTES)

    assert sum(map(len, plain)) == 3000 * 2**20
