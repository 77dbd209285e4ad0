from __future__ import annotations

import gzip
import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes, hex_of
from builder.edges.archive import ArchiveSource
from builder.oci.dual import DualArchive
from builder.oci.errors import DigestMismatchError, TruncatedBlobError
from builder.oci.model import OCI_LAYER_GZIP
from tests.unit.oci.archives import Published, config_document, directory, file, tar_of
from tests.validate import validate_image

if TYPE_CHECKING:
    from pathlib import Path

    from builder.oci.model import Image

LOWER = tar_of(directory("d"), file("d/a", b"1" * 3000))
UPPER = tar_of(directory("d"), file("d/b", b"2"))


@pytest.fixture
def published() -> Published:
    return Published()


@pytest.fixture
def image(published: Published) -> Image:
    return published.image(LOWER, UPPER)


def members(archive: DualArchive) -> dict[str, bytes]:
    """Every file of the archive, as Python's own reader finds it."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(archive.chunks()))) as tar:
        files = [member for member in tar if member.isfile()]
        found = {}
        for member in files:
            stream = tar.extractfile(member)
            assert stream is not None
            found[member.name] = stream.read()
    assert len(found) == len(files), "no name twice"
    return found


def test_it_is_a_layout_and_a_docker_archive_of_the_same_blobs(
    published: Published, image: Image
) -> None:
    found = members(DualArchive(image, published.source.open_blob, name="sparklock/lab:0123"))

    blobs = {
        f"blobs/sha256/{hex_of(digest)}": data for digest, data in published.source.blobs.items()
    }
    assert found.keys() == {*blobs, "oci-layout", "index.json", "manifest.json"}
    assert {name: found[name] for name in blobs} == blobs
    assert json.loads(found["manifest.json"]) == [
        {
            "Config": f"blobs/sha256/{hex_of(image.config.digest)}",
            "RepoTags": ["sparklock/lab:0123"],
            "Layers": [f"blobs/sha256/{hex_of(digest_bytes(data))}" for data in (LOWER, UPPER)],
        }
    ]
    (entry,) = json.loads(found["index.json"])["manifests"]
    assert entry == {
        **image.manifest.descriptor.as_json(),
        "platform": {"os": "linux", "architecture": "amd64"},
        "annotations": {
            "io.containerd.image.name": "docker.io/sparklock/lab:0123",
            "org.opencontainers.image.ref.name": "0123",
        },
    }


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("lab:v1", "docker.io/library/lab:v1"),
        ("a/b/c:v1", "docker.io/a/b/c:v1"),
        ("localhost/lab:v1", "localhost/lab:v1"),
        ("host:5000/lab:v1", "host:5000/lab:v1"),
        ("host.example/a/b:v1", "host.example/a/b:v1"),
    ],
)
def test_containerd_is_told_the_whole_name(
    published: Published, image: Image, name: str, full: str
) -> None:
    found = members(DualArchive(image, published.source.open_blob, name=name))
    (entry,) = json.loads(found["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == full


def test_without_a_name_it_has_none(published: Published, image: Image) -> None:
    found = members(DualArchive(image, published.source.open_blob))
    assert "annotations" not in json.loads(found["index.json"])["manifests"][0]
    assert json.loads(found["manifest.json"])[0]["RepoTags"] == []


def test_left_out_layers_are_named_and_never_opened(published: Published, image: Image) -> None:
    lower = digest_bytes(LOWER)
    archive = DualArchive(image, published.source.open_blob, left_out=frozenset({lower}))

    found = members(archive)

    name = f"blobs/sha256/{hex_of(lower)}"
    assert name not in found
    assert name in json.loads(found["manifest.json"])[0]["Layers"]
    assert published.source.opened == {digest_bytes(UPPER): 1}


@pytest.mark.parametrize("left_out", [(), (LOWER,), (LOWER, UPPER)])
def test_its_size_is_known_before_anything_is_opened(
    published: Published, image: Image, left_out: tuple[bytes, ...]
) -> None:
    archive = DualArchive(
        image, published.source.open_blob, left_out=frozenset(map(digest_bytes, left_out))
    )
    size_bytes = archive.size_bytes
    assert not published.source.opened

    assert size_bytes == sum(map(len, archive.chunks()))


def test_a_layer_that_is_there_twice_is_written_once(published: Published) -> None:
    image = published.image(LOWER, UPPER, LOWER)
    archive = DualArchive(image, published.source.open_blob)

    found = members(archive)

    assert len(json.loads(found["manifest.json"])[0]["Layers"]) == 3
    assert archive.size_bytes == sum(map(len, archive.chunks()))


def test_writing_twice_gives_the_same_bytes(published: Published, image: Image) -> None:
    archive = DualArchive(image, published.source.open_blob, name="a:b")
    assert list(archive.chunks()) == list(archive.chunks())


def test_it_is_read_back_as_the_image_it_was_made_from(
    published: Published, image: Image, tmp_path: Path
) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(b"".join(DualArchive(image, published.source.open_blob).chunks()))

    source = ArchiveSource(path, spool=tmp_path)
    assert source.roots() == (image.manifest.descriptor,)
    assert validate_image(source, image.manifest.descriptor) == image


def test_a_layer_with_other_bytes_ends_it(published: Published, image: Image) -> None:
    published.source.blobs[digest_bytes(LOWER)] = LOWER.replace(b"1", b"3")
    with pytest.raises(DigestMismatchError) as caught:
        b"".join(DualArchive(image, published.source.open_blob).chunks())
    assert digest_bytes(LOWER) in caught.value.messages[0].place


def test_a_layer_that_ends_early_ends_it(published: Published, image: Image) -> None:
    published.source.blobs[digest_bytes(LOWER)] = LOWER[:-1]
    with pytest.raises(TruncatedBlobError):
        b"".join(DualArchive(image, published.source.open_blob).chunks())


def test_a_compressed_layer_stays_as_it_is(published: Published) -> None:
    stored = gzip.compress(LOWER, mtime=0)
    manifest = published.manifest(
        config_document(digest_bytes(LOWER)), published.add_layer(stored, OCI_LAYER_GZIP)
    )
    published.source.tops = [manifest]
    image = validate_image(published.source, manifest)

    found = members(DualArchive(image, published.source.open_blob))

    assert found[f"blobs/sha256/{hex_of(digest_bytes(stored))}"] == stored
