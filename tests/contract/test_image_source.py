"""What every builder.sources.ImageSource keeps, on the fake and on an OCI layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from builder.digest import Digest, digest_bytes, hex_of
from builder.edges.layout import LayoutSource, write_layout
from builder.oci.errors import DigestMismatchError, MissingBlobError, TruncatedBlobError
from builder.oci.model import OCI_LAYER_TAR, OCI_MANIFEST, Descriptor
from tests.unit.oci.archives import Published, file, tar_of

if TYPE_CHECKING:
    from pathlib import Path

    from builder.oci.model import Image
    from builder.sources import ImageSource

ABSENT = Digest("sha256:" + "0" * 64)
LAYER = tar_of(file("a", b"x" * 3_000_000))


@dataclass
class Offered:
    """A source that offers one image, and a way to damage it."""

    source: ImageSource
    image: Image
    folder: Path | None
    published: Published

    def replace(self, digest: Digest, data: bytes | None) -> None:
        if self.folder is not None:
            path = self.folder / "blobs" / "sha256" / hex_of(digest)
            path.unlink()
            if data is not None:
                path.write_bytes(data)
        elif data is None:
            del self.published.source.blobs[digest]
        else:
            self.published.source.blobs[digest] = data


@pytest.fixture(params=["memory", "layout"])
def offered(request: pytest.FixtureRequest, tmp_path: Path) -> Offered:
    published = Published()
    image = published.image(LAYER)
    if request.param == "memory":
        return Offered(published.source, image, None, published)
    write_layout(tmp_path / "layout", image, published.source.open_blob)
    return Offered(LayoutSource(tmp_path / "layout"), image, tmp_path / "layout", published)


def test_the_image_is_the_only_root(offered: Offered) -> None:
    assert offered.source.roots() == (offered.image.manifest.descriptor,)


def test_documents_are_the_raw_bytes(offered: Offered) -> None:
    digest = offered.image.manifest.descriptor.digest

    assert offered.source.document(digest, media_type=OCI_MANIFEST) == offered.image.manifest.raw


def test_blobs_come_in_chunks_of_at_most_a_mebibyte(offered: Offered) -> None:
    with offered.source.open_blob(offered.image.layers[0].descriptor) as chunks:
        parts = list(chunks)

    assert b"".join(parts) == LAYER
    assert max(map(len, parts)) <= 2**20


def test_a_blob_can_be_left_half_read_and_opened_again(offered: Offered) -> None:
    for _ in range(2):
        with offered.source.open_blob(offered.image.layers[0].descriptor) as chunks:
            assert LAYER.startswith(next(chunks))


def test_absent_blobs_are_missing(offered: Offered) -> None:
    with pytest.raises(MissingBlobError) as caught:
        offered.source.document(ABSENT, media_type=OCI_MANIFEST)
    assert caught.value.place == offered.source.place
    with (
        pytest.raises(MissingBlobError),
        offered.source.open_blob(Descriptor(OCI_LAYER_TAR, ABSENT, 1)),
    ):
        pass


def test_a_removed_document_is_missing(offered: Offered) -> None:
    digest = offered.image.config.digest
    offered.replace(digest, None)

    with pytest.raises(MissingBlobError) as caught:
        offered.source.document(digest, media_type=OCI_MANIFEST)
    assert caught.value.digest == digest


def test_a_changed_document_is_a_mismatch(offered: Offered) -> None:
    digest = offered.image.config.digest
    offered.replace(digest, b"{}")

    with pytest.raises(DigestMismatchError) as caught:
        offered.source.document(digest, media_type=OCI_MANIFEST)
    assert (caught.value.expected, caught.value.found) == (digest, digest_bytes(b"{}"))


def test_a_cut_blob_is_named_as_cut_when_it_is_opened(offered: Offered) -> None:
    descriptor = offered.image.layers[0].descriptor
    offered.replace(descriptor.digest, LAYER[:-1])

    with pytest.raises(TruncatedBlobError) as caught, offered.source.open_blob(descriptor):
        pass
    assert caught.value.found_bytes == len(LAYER) - 1
