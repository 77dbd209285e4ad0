from __future__ import annotations

import gzip

import pytest

from builder.digest import digest_bytes
from builder.oci.errors import (
    DiffIdMismatchError,
    DigestMismatchError,
    MalformedLayerError,
    MissingBlobError,
    SizeMismatchError,
    TruncatedBlobError,
)
from builder.oci.model import OCI_LAYER_GZIP, Descriptor
from tests.unit.oci.archives import Published, config_document, file, tar_of
from tests.validate import InvalidImageError, validate_image

ONE, TWO = tar_of(file("a", b"1")), tar_of(file("b", b"2"))


def published() -> tuple[Published, Descriptor]:
    """An image of a gzip layer and a plain one."""
    made = Published()
    manifest = made.manifest(
        config_document(digest_bytes(ONE), digest_bytes(TWO)),
        made.add_layer(gzip.compress(ONE), OCI_LAYER_GZIP),
        made.add_layer(TWO),
    )
    return made, manifest


def test_a_whole_image_is_valid() -> None:
    made, manifest = published()

    image = validate_image(made.source, manifest)

    assert image.manifest.descriptor == manifest
    assert [layer.diff_id for layer in image.layers] == [digest_bytes(ONE), digest_bytes(TWO)]


def test_a_wrong_diff_id_is_found_although_the_stored_digest_is_right() -> None:
    made = Published()
    layer = made.add_layer(gzip.compress(ONE), OCI_LAYER_GZIP)
    manifest = made.manifest(config_document(digest_bytes(TWO)), layer)

    with pytest.raises(InvalidImageError) as caught:
        validate_image(made.source, manifest)
    assert [type(problem) for problem in caught.value.problems] == [DiffIdMismatchError]


def test_every_bad_layer_is_reported() -> None:
    made, manifest = published()
    one, two = (layer.descriptor for layer in validate_image(made.source, manifest).layers)
    made.source.blobs[one.digest] = b"changed" * 100
    del made.source.blobs[two.digest]

    with pytest.raises(InvalidImageError) as caught:
        validate_image(made.source, manifest)
    assert [type(problem) for problem in caught.value.problems] == [
        SizeMismatchError,
        MissingBlobError,
    ]
    assert len(caught.value.messages) == 2


def test_a_flipped_bit_a_cut_and_a_broken_gzip_are_told_apart() -> None:
    made = Published()
    cut, bad = gzip.compress(ONE)[:-9], bytearray(ONE)
    bad[600] ^= 1
    layers = [made.add_layer(data) for data in (ONE, TWO, cut)]
    manifest = made.manifest(config_document(*(layer.digest for layer in layers)), *layers)
    made.source.blobs[layers[0].digest] = bytes(bad)
    made.source.blobs[layers[1].digest] = TWO[:-1]

    with pytest.raises(InvalidImageError) as caught:
        validate_image(made.source, manifest)
    assert [type(problem) for problem in caught.value.problems] == [
        DigestMismatchError,
        TruncatedBlobError,
        MalformedLayerError,
    ]


@pytest.mark.parametrize("part", ["manifest", "config"])
def test_a_changed_document_is_the_one_error(part: str) -> None:
    made, manifest = published()
    config = validate_image(made.source, manifest).manifest.config
    digest = manifest.digest if part == "manifest" else config.digest
    made.source.blobs[digest] = made.source.blobs[digest].replace(b"layers", b"lairs.")

    with pytest.raises(DigestMismatchError) as caught:
        validate_image(made.source, manifest)
    assert caught.value.expected == digest


def test_a_document_longer_than_described_is_an_error() -> None:
    made, manifest = published()
    short = Descriptor(manifest.media_type, manifest.digest, manifest.size_bytes - 1)

    with pytest.raises(SizeMismatchError):
        validate_image(made.source, short)
