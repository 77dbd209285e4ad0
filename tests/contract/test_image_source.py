"""What every builder.sources.ImageSource keeps: the fake in memory, and each real edge."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from builder.digest import Digest, digest_bytes
from builder.edges.archive import ArchiveSource
from builder.edges.kept import KeptSource
from builder.edges.layout import LayoutSource, write_layout
from builder.edges.store import BlobStore
from builder.oci.errors import DigestMismatchError, MissingBlobError, TruncatedBlobError
from builder.oci.model import OCI_CONFIG, OCI_INDEX, OCI_LAYER_TAR, OCI_MANIFEST, Descriptor
from tests.debian_registry import debian_registry
from tests.fake_engine import containerd_store
from tests.fake_registry import serving
from tests.unit.oci.archives import Published, file, tar_of
from tests.unit.oci.image_archives import layout_members, saved_members

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Callable, Iterator
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
    replace: Callable[[Digest, bytes | None], None]
    """Other bytes in the place of a blob's, or none."""


def in_memory(_folder: Path) -> Iterator[Offered]:
    published = Published()
    image = published.image(LAYER)
    yield Offered(published.source, image, replacing(published.source.blobs))


def in_a_layout(folder: Path) -> Iterator[Offered]:
    published = Published()
    image = published.image(LAYER)
    write_layout(folder, image, published.source.open_blob)
    source = LayoutSource(folder)
    yield Offered(source, image, replacing_files(source.path))


def in_a_fake_registry(_folder: Path) -> Iterator[Offered]:
    published = Published()
    image = published.image(LAYER)
    with serving(published.source) as registry:
        yield Offered(registry.opened(), image, replacing(published.source.blobs))


def in_a_registry_behind_a_store(folder: Path) -> Iterator[Offered]:
    published = Published()
    image = published.image(LAYER)
    with serving(published.source) as registry:
        source = KeptSource(registry.opened(), BlobStore(folder))
        yield Offered(source, image, replacing(published.source.blobs))


def in_debians_registry(folder: Path) -> Iterator[Offered]:
    published = Published()
    image = published.image(LAYER)
    with debian_registry(folder) as registry:
        registry.push(image, published.source.open_blob)
        yield Offered(registry.opened(), image, replacing_files(registry.blob))


def in_an_archive_of_a_layout(folder: Path) -> Iterator[Offered]:
    yield from _archived(folder, layout_members, bytes)


def in_a_docker_archive(folder: Path) -> Iterator[Offered]:
    yield from _archived(folder, saved_members, bytes)


def in_a_compressed_docker_archive(folder: Path) -> Iterator[Offered]:
    yield from _archived(folder, saved_members, gzip.compress)


def in_a_fake_engine_of_containerds_store(folder: Path) -> Iterator[Offered]:
    published = Published()
    image = published.image(LAYER)
    with containerd_store(folder.with_suffix(".sock"), published) as engine:
        blobs = dict(published.source.blobs)
        replace = replacing(blobs)

        def replace_in_engine(digest: Digest, data: bytes | None) -> None:
            replace(digest, data)
            published.source.blobs = blobs
            engine.members = layout_members(published)

        yield Offered(engine.source(folder), image, replace_in_engine)


def _archived(
    folder: Path,
    members_of: Callable[[Published], list[tuple[tarfile.TarInfo, bytes]]],
    wrap: Callable[[bytes], bytes],
) -> Iterator[Offered]:
    """An archive that is written anew for every blob that is replaced, before it is first read."""
    published = Published()
    image = published.image(LAYER)
    members = members_of(published)
    names = {digest_bytes(data): info.name for info, data in members}
    path = folder.with_suffix(".tar")

    def write() -> None:
        path.write_bytes(wrap(tar_of(*members)))

    def replace(digest: Digest, data: bytes | None) -> None:
        members[:] = [member for member in members if member[0].name != names[digest]]
        if data is not None:
            members.append(file(names[digest], data))
        write()

    write()
    yield Offered(ArchiveSource(path, spool=folder / "spool"), image, replace)


def replacing(blobs: dict[Digest, bytes]) -> Callable[[Digest, bytes | None], None]:
    def replace(digest: Digest, data: bytes | None) -> None:
        del blobs[digest]
        if data is not None:
            blobs[digest] = data

    return replace


def replacing_files(path: Callable[[Digest], Path]) -> Callable[[Digest, bytes | None], None]:
    def replace(digest: Digest, data: bytes | None) -> None:
        path(digest).unlink()
        if data is not None:
            path(digest).write_bytes(data)

    return replace


KINDS = (
    in_memory,
    in_a_layout,
    in_a_fake_registry,
    in_a_registry_behind_a_store,
    in_debians_registry,
    in_an_archive_of_a_layout,
    in_a_docker_archive,
    in_a_compressed_docker_archive,
    in_a_fake_engine_of_containerds_store,
)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def offered(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Offered]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "nobody"))
    monkeypatch.delenv("SPARKLOCK_OFFLINE", raising=False)
    yield from request.param(tmp_path / "source")


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


def test_a_manifest_can_be_opened_too(offered: Offered) -> None:
    with offered.source.open_blob(offered.image.manifest.descriptor) as chunks:
        assert b"".join(chunks) == offered.image.manifest.raw


def test_a_blob_can_be_read_by_several_threads_at_once(offered: Offered) -> None:
    (layer,) = offered.image.layers
    descriptors = [layer.descriptor, offered.image.manifest.config] * 4
    begun = threading.Barrier(len(descriptors))

    def read(descriptor: Descriptor) -> Digest:
        with offered.source.open_blob(descriptor) as chunks:
            begun.wait(timeout=30)
            return digest_bytes(b"".join(chunks))

    with ThreadPoolExecutor(len(descriptors)) as pool:
        assert list(pool.map(read, descriptors)) == [item.digest for item in descriptors]


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


def test_an_index_is_asked_for_and_a_manifest_given(offered: Offered) -> None:
    digest = offered.image.manifest.descriptor.digest

    assert offered.source.document(digest, media_type=OCI_INDEX) == offered.image.manifest.raw


def test_configs_are_the_raw_bytes(offered: Offered) -> None:
    digest = offered.image.config.digest

    assert offered.source.document(digest, media_type=OCI_CONFIG) == offered.image.config.raw


def test_the_place_is_in_one_line_and_names_the_source(offered: Offered) -> None:
    assert offered.source.place.isprintable()
    assert offered.source.place


def test_a_removed_document_is_missing(offered: Offered) -> None:
    digest = offered.image.config.digest
    offered.replace(digest, None)

    with pytest.raises(MissingBlobError) as caught:
        offered.source.document(digest, media_type=OCI_CONFIG)
    assert caught.value.digest == digest


def test_a_changed_document_is_a_mismatch(offered: Offered) -> None:
    digest = offered.image.config.digest
    offered.replace(digest, b"{}")

    with pytest.raises(DigestMismatchError) as caught:
        offered.source.document(digest, media_type=OCI_CONFIG)
    assert (caught.value.expected, caught.value.found) == (digest, digest_bytes(b"{}"))


def test_a_cut_blob_is_named_as_cut_when_it_is_opened(offered: Offered) -> None:
    descriptor = offered.image.layers[0].descriptor
    offered.replace(descriptor.digest, LAYER[:-1])

    with pytest.raises(TruncatedBlobError) as caught, offered.source.open_blob(descriptor):
        pass
    assert caught.value.found_bytes == len(LAYER) - 1
