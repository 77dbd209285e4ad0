"""A far source behind a store: what is fetched, what is kept, and what of it is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.digest import Digest, digest_bytes
from builder.edges.kept import KeptSource
from builder.edges.store import BlobStore
from builder.oci.errors import DamagedBlobError, MissingBlobError
from builder.oci.model import OCI_CONFIG, OCI_LAYER_TAR, OCI_MANIFEST, Descriptor
from builder.oci.select import MAX_DOCUMENT_BYTES
from tests.unit.oci.archives import Published, file, tar_of

if TYPE_CHECKING:
    from pathlib import Path

LAYER = tar_of(file("a", b"x" * 100_000))
BLOB = Descriptor(OCI_LAYER_TAR, digest_bytes(LAYER), len(LAYER))


@pytest.fixture
def far() -> Published:
    found = Published()
    found.image(LAYER)
    return found


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "store")


@pytest.fixture
def kept(far: Published, store: BlobStore) -> KeptSource:
    return KeptSource(far.source, store)


def read(source: KeptSource, descriptor: Descriptor = BLOB) -> bytes:
    with source.open_blob(descriptor) as chunks:
        return b"".join(chunks)


def leftovers(store: BlobStore) -> list[Path]:
    return list(store.path(BLOB.digest).parents[2].joinpath("tmp").glob("*"))


def test_a_blob_is_fetched_once(kept: KeptSource, far: Published, store: BlobStore) -> None:
    assert read(kept) == read(kept) == LAYER

    assert far.source.opened == {BLOB.digest: 1}
    assert store.is_sound(BLOB.digest)
    assert leftovers(store) == []


def test_a_document_is_fetched_once(kept: KeptSource, far: Published) -> None:
    (root,) = kept.roots()
    raw = kept.document(root.digest, media_type=OCI_MANIFEST)
    del far.source.blobs[root.digest]

    assert kept.document(root.digest, media_type=OCI_MANIFEST) == raw


def test_what_a_name_means_is_asked_every_time(kept: KeptSource, far: Published) -> None:
    (before,) = kept.roots()
    far.image(tar_of(file("another")))

    (after,) = kept.roots()
    assert after != before


def test_a_blob_that_is_left_half_read_is_not_kept(
    kept: KeptSource, far: Published, store: BlobStore
) -> None:
    with kept.open_blob(BLOB) as chunks:
        assert next(chunks)

    assert not store.has(BLOB.digest)
    assert leftovers(store) == []
    assert read(kept) == LAYER
    assert far.source.opened == {BLOB.digest: 2}


def test_other_bytes_are_passed_on_to_who_checks_them_and_not_kept(
    kept: KeptSource, far: Published, store: BlobStore
) -> None:
    far.source.blobs[BLOB.digest] = b"y" * len(LAYER)

    assert read(kept) == b"y" * len(LAYER)
    assert not store.has(BLOB.digest)
    assert leftovers(store) == []


def spoil(store: BlobStore, digest: Digest, data: bytes) -> None:
    store.path(digest).unlink()
    store.path(digest).write_bytes(data)


def test_a_kept_blob_of_another_size_is_fetched_again(
    kept: KeptSource, far: Published, store: BlobStore
) -> None:
    read(kept)
    spoil(store, BLOB.digest, LAYER[:-1])

    assert read(kept) == LAYER
    assert store.is_sound(BLOB.digest)
    assert far.source.opened == {BLOB.digest: 2}


def test_a_kept_blob_with_other_bytes_is_told_with_its_file(
    kept: KeptSource, store: BlobStore
) -> None:
    read(kept)
    spoil(store, BLOB.digest, b"y" * len(LAYER))

    with pytest.raises(DamagedBlobError) as caught:
        read(kept)
    assert f"rm -f {store.path(BLOB.digest)}" in str(caught.value)


def test_a_kept_document_with_other_bytes_is_fetched_again(
    kept: KeptSource, store: BlobStore
) -> None:
    (root,) = kept.roots()
    raw = kept.document(root.digest, media_type=OCI_MANIFEST)
    spoil(store, root.digest, b"{}")

    assert kept.document(root.digest, media_type=OCI_MANIFEST) == raw
    assert store.is_sound(root.digest)


def test_a_kept_layer_is_not_read_as_a_document(kept: KeptSource, far: Published) -> None:
    data = bytes(MAX_DOCUMENT_BYTES + 1)
    huge = Descriptor(OCI_LAYER_TAR, far.source.add(data), len(data))
    read(kept, huge)
    del far.source.blobs[huge.digest]

    with pytest.raises(MissingBlobError):  # the source was asked
        kept.document(huge.digest, media_type=OCI_CONFIG)


def test_errors_name_the_far_source(kept: KeptSource) -> None:
    assert kept.place == "memory:"
