"""What every builder.sources.Blobs keeps, on the fake and on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.digest import Digest, digest_bytes
from builder.edges.store import BlobStore
from builder.oci.errors import DigestMismatchError, MissingBlobError
from tests.fakes import MemoryBlobs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from builder.sources import Blobs

ABSENT = Digest("sha256:" + "0" * 64)


@pytest.fixture(params=["memory", "disk"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    return MemoryBlobs() if request.param == "memory" else BlobStore(tmp_path / "store")


@pytest.mark.parametrize("parts", [[], [b""], [b"abc"], [b"a", b"", b"bc"], [b"x" * 3_000_000]])
def test_what_is_put_can_be_read_under_its_digest(blobs: Blobs, parts: list[bytes]) -> None:
    data = b"".join(parts)

    assert blobs.put(iter(parts)) == digest_bytes(data)
    assert blobs.has(digest_bytes(data))
    assert blobs.read(digest_bytes(data)) == data
    assert b"".join(blobs.chunks(digest_bytes(data))) == data


def test_chunks_are_at_most_a_mebibyte(blobs: Blobs) -> None:
    digest = blobs.put([b"x" * 3_000_000])

    assert max(len(chunk) for chunk in blobs.chunks(digest)) <= 2**20


def test_putting_twice_changes_nothing(blobs: Blobs) -> None:
    assert blobs.put([b"abc"]) == blobs.put([b"abc"], expected=digest_bytes(b"abc"))
    assert blobs.read(digest_bytes(b"abc")) == b"abc"


def test_unexpected_bytes_are_refused_and_not_kept(blobs: Blobs) -> None:
    with pytest.raises(DigestMismatchError) as caught:
        blobs.put([b"abc"], expected=ABSENT)

    assert (caught.value.expected, caught.value.found) == (ABSENT, digest_bytes(b"abc"))
    assert not blobs.has(ABSENT)
    assert not blobs.has(digest_bytes(b"abc"))


def test_an_absent_blob_is_missing(blobs: Blobs) -> None:
    assert not blobs.has(ABSENT)
    with pytest.raises(MissingBlobError) as caught:
        blobs.read(ABSENT)
    assert caught.value.digest == ABSENT
    with pytest.raises(MissingBlobError):
        next(blobs.chunks(ABSENT))


def test_an_error_of_the_bytes_own_passes_and_nothing_is_kept(blobs: Blobs) -> None:
    def failing() -> Iterator[bytes]:
        yield b"abc"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        blobs.put(failing())
    assert not blobs.has(digest_bytes(b"abc"))
