from __future__ import annotations

import io
from errno import EIO
from os import strerror
from pathlib import Path

import pytest

from builder.digest import digest_bytes
from deploy.edges.transfer import Outgoing, _copy
from deploy.node_errors import ModelFileChangedError

DATA = b"weights"


class FailingDisk(io.BytesIO):
    """A file whose disk fails at the first read."""

    def read(self, _size: int | None = -1, /) -> bytes:
        raise OSError(EIO, strerror(EIO))


def outgoing() -> Outgoing:
    return Outgoing(Path("models/w"), "w", len(DATA), digest_bytes(DATA))


def test_a_file_arrives_whole() -> None:
    pipe = io.BytesIO()

    assert list(_copy(io.BytesIO(DATA), pipe, outgoing())) == [len(DATA)]
    assert pipe.getvalue() == DATA


def test_a_file_whose_disk_fails_is_told_with_its_place() -> None:
    with pytest.raises(ModelFileChangedError) as raised:
        list(_copy(FailingDisk(DATA), io.BytesIO(), outgoing()))

    assert (raised.value.path, raised.value.found) == ("models/w", "Input/output error")
