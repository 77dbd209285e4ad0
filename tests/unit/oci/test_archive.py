"""Archives of images: which kinds are read, how, and what is said of those that cannot be."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import resource
import tarfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from builder.digest import Digest, JsonValue, digest_bytes, hex_of
from builder.edges.archive import ArchiveSource
from builder.edges.archive_errors import (
    DamagedArchiveError,
    IncompleteArchiveError,
    MissingArchiveError,
)
from builder.errors import BuildError
from builder.oci.errors import (
    DigestMismatchError,
    MissingBlobError,
    StorageError,
    UnsupportedCompressionError,
)
from builder.oci.image_errors import (
    AmbiguousRootError,
    LayerCountError,
    MalformedDocumentError,
)
from builder.oci.model import OCI_CONFIG, OCI_LAYER_GZIP, Platform
from builder.oci.select import MAX_DOCUMENT_BYTES, select_manifest
from tests.unit.oci.archives import (
    Published,
    config_document,
    directory,
    file,
    hard_link,
    symlink,
    tar_of,
)
from tests.unit.oci.image_archives import layout_members, saved_members
from tests.unit.oci.zstandard import zstandard
from tests.validate import InvalidImageError, validate_image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AMD64 = Platform("linux", "amd64")
LAYER = tar_of(file("a", b"x" * 3_000_000))


def source_of(tmp_path: Path, data: bytes) -> ArchiveSource:
    path = tmp_path / "image.tar"
    path.write_bytes(data)
    return ArchiveSource(path, spool=tmp_path / "spool")


def published(*tars: bytes) -> Published:
    found = Published()
    found.image(*(tars or (LAYER,)))
    return found


def read(source: ArchiveSource, digest: Digest) -> bytes:
    image = select_manifest(source, None, AMD64).image
    layer = next(item for item in image.layers if item.descriptor.digest == digest)
    with source.open_blob(layer.descriptor) as chunks:
        return b"".join(chunks)


KINDS: dict[str, Callable[[Published], list[tuple[tarfile.TarInfo, bytes]]]] = {
    "layout": layout_members,
    "saved": saved_members,
    "both": lambda found: [*saved_members(found), *layout_members(found)],
}
WRAPPED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard,
    "gzip of two members": lambda data: gzip.compress(data[:9000]) + gzip.compress(data[9000:]),
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("members", KINDS.values(), ids=KINDS)
def test_an_image_is_the_same_in_every_kind_of_archive(
    tmp_path: Path,
    members: Callable[[Published], list[tuple[tarfile.TarInfo, bytes]]],
    wrap: Callable[[bytes], bytes],
) -> None:
    found = published(LAYER, tar_of(file("b", b"2")))
    source = source_of(tmp_path, wrap(tar_of(*members(found))))

    (root,) = source.roots()
    assert (root,) == found.source.roots()
    image = validate_image(source, root)
    assert image == select_manifest(found.source, None, AMD64).image
    assert source.place == f"archive:{tmp_path}/image.tar"


@pytest.mark.parametrize("format_", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_the_tars_of_all_tools_are_read(tmp_path: Path, format_: int) -> None:
    found = published()
    for number, (info, _) in enumerate(members := layout_members(found)):
        info.name = f"./{info.name}"
        info.mtime = number
    source = source_of(tmp_path, tar_of(directory("./"), *members, format=format_))

    assert source.roots() == found.source.roots()
    assert read(source, digest_bytes(LAYER)) == LAYER


def test_only_headers_and_what_is_asked_are_read_of_a_plain_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_bytes = 0
    pread = os.pread

    def counting(handle: int, size_bytes: int, position: int) -> bytes:
        nonlocal read_bytes
        data = pread(handle, size_bytes, position)
        read_bytes += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    source = source_of(tmp_path, tar_of(*layout_members(published())))

    assert source.roots()
    assert read_bytes < 100_000
    assert not (tmp_path / "spool").exists()


def test_a_compressed_archive_is_unpacked_once_and_leaves_nothing(tmp_path: Path) -> None:
    source = source_of(tmp_path, gzip.compress(tar_of(*saved_members(published()))))

    assert source.roots()
    (tmp_path / "image.tar").unlink()
    for _ in range(2):
        assert read(source, digest_bytes(LAYER)) == LAYER
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("wrap", [bytes, gzip.compress])
def test_several_threads_read_at_once(tmp_path: Path, wrap: Callable[[bytes], bytes]) -> None:
    other = tar_of(file("b", b"y" * 2_000_000))
    source = source_of(tmp_path, wrap(tar_of(*saved_members(published(LAYER, other)))))

    with ThreadPoolExecutor(4) as pool:
        wanted = [LAYER, other] * 4
        found = list(pool.map(lambda data: read(source, digest_bytes(data)), wanted))
    assert found == wanted


def test_a_layer_that_stands_twice_can_be_a_link(tmp_path: Path) -> None:
    # as docker save of 20.10 writes them: one/layer.tar, and two/layer.tar -> ../one/layer.tar
    config = json.dumps(config_document(digest_bytes(LAYER), digest_bytes(LAYER))).encode()
    name = f"{hex_of(digest_bytes(config))}.json"
    listed = [{"Config": name, "RepoTags": None, "Layers": ["one/layer.tar", "two/layer.tar"]}]
    source = source_of(
        tmp_path,
        tar_of(
            directory("one"),
            file("one/VERSION", b"1.0"),
            hard_link("one/layer.tar", "three/x"),
            directory("two"),
            symlink("two/layer.tar", "../one/layer.tar"),
            file("three/x", LAYER),
            file(name, config),
            file("manifest.json", json.dumps(listed).encode()),
        ),
    )

    image = select_manifest(source, None, AMD64).image
    assert [layer.descriptor.digest for layer in image.layers] == [digest_bytes(LAYER)] * 2
    assert read(source, image.layers[1].descriptor.digest) == LAYER


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    source = source_of(
        tmp_path, tar_of(symlink("manifest.json", "b"), symlink("b", "manifest.json"))
    )

    with pytest.raises(IncompleteArchiveError):
        source.roots()


def test_a_compressed_layer_keeps_the_digest_of_its_stored_bytes(tmp_path: Path) -> None:
    stored = gzip.compress(LAYER, mtime=0)
    source = source_of(tmp_path, tar_of(*saved_members(published(), layers=[stored])))

    (layer,) = select_manifest(source, None, AMD64).image.layers
    assert layer.descriptor.media_type == OCI_LAYER_GZIP
    assert layer.descriptor.digest == digest_bytes(stored)
    assert layer.diff_id == digest_bytes(LAYER)
    assert read(source, layer.descriptor.digest) == stored


def test_of_duplicate_members_the_last_counts(tmp_path: Path) -> None:
    old, new = published(tar_of(file("old"))), published()
    members = [*layout_members(old), *layout_members(new)]

    assert source_of(tmp_path, tar_of(*members)).roots() == new.source.roots()


def test_several_images_are_told_apart_by_their_digests(tmp_path: Path) -> None:
    one, two = published(tar_of(file("one"))), published(tar_of(file("two")))
    listed = [json.loads(saved_members(found)[-1][1])[0] for found in (one, two)]
    members = [member for found in (one, two) for member in saved_members(found)[:-1]]
    source = source_of(
        tmp_path, tar_of(*members, file("manifest.json", json.dumps(listed).encode()))
    )

    digests = [root.digest for root in source.roots()]
    assert digests == sorted(root.digest for found in (one, two) for root in found.source.roots())
    with pytest.raises(AmbiguousRootError):
        select_manifest(source, None, AMD64)
    (pin,) = two.source.roots()
    assert select_manifest(source, pin.digest, AMD64).image.manifest.descriptor == pin


# --- archives that cannot be read --------------------------------------------------------------


def error_of(tmp_path: Path, data: bytes) -> BuildError:
    with pytest.raises(BuildError) as caught:
        source_of(tmp_path, data).roots()
    for message in caught.value.messages:
        assert message.place.startswith(f"archive:{tmp_path}/image.tar")
        assert message.remedy
    return caught.value


NO_ARCHIVES: dict[str, Callable[[Path], object]] = {
    "a folder": lambda path: path.mkdir(),
    "no such file": lambda _: None,
    "a device, pipe or socket": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize(("found", "make"), [*NO_ARCHIVES.items(), ([*NO_ARCHIVES][2], os.mkfifo)])
def test_no_file_is_told_with_a_way_to_make_one(
    tmp_path: Path, make: Callable[[Path], object], found: str
) -> None:
    make(tmp_path / "image.tar")

    with pytest.raises(MissingArchiveError) as caught:
        ArchiveSource(tmp_path / "image.tar", spool=tmp_path).roots()
    (message,) = caught.value.messages
    assert message.found == found
    assert "docker save IMAGE -o FILE" in message.remedy


@pytest.mark.parametrize("size_bytes", [1000, 200_000])
def test_a_cut_archive_is_told(tmp_path: Path, size_bytes: int) -> None:
    error = error_of(tmp_path, tar_of(*layout_members(published()))[:size_bytes])

    assert isinstance(error, DamagedArchiveError)
    assert "the archive ends too early" in str(error)


@pytest.mark.parametrize(("compress", "name"), [(lzma.compress, "xz"), (bz2.compress, "bzip2")])
def test_an_archive_of_another_compression_is_told_by_its_name(
    tmp_path: Path, compress: Callable[[bytes], bytes], name: str
) -> None:
    error = error_of(tmp_path, compress(tar_of(*layout_members(published()))))

    assert isinstance(error, DamagedArchiveError)
    assert f"found:    compressed with {name}\n" in str(error)


def test_a_layer_of_another_compression_is_told_by_its_name(tmp_path: Path) -> None:
    members = saved_members(published(), layers=[lzma.compress(LAYER)])

    with pytest.raises(UnsupportedCompressionError) as caught:
        source_of(tmp_path, tar_of(*members)).roots()
    assert (caught.value.digest, caught.value.found) == (digest_bytes(LAYER), "xz")


def test_a_cut_gzip_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    error = error_of(tmp_path, gzip.compress(tar_of(*layout_members(published())))[:-9])

    assert isinstance(error, DamagedArchiveError)
    assert "gzip: data end too early" in str(error)
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("data", [b"no tar" * 200, b"x" * 511])
def test_something_else_is_told(tmp_path: Path, data: bytes) -> None:
    assert isinstance(error_of(tmp_path, data), DamagedArchiveError)


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ((), "an empty archive"),
        ((file("etc/motd"), file("index.json", b"{}")), "etc/motd, index.json"),
        (tuple(file(f"file{n}") for n in range(9)), "file0, file1, file2, file3, file4"),
    ],
)
def test_an_archive_of_something_else_is_told_by_what_it_has(
    tmp_path: Path, members: tuple[Any, ...], found: str
) -> None:
    error = error_of(tmp_path, tar_of(*members))

    assert isinstance(error, IncompleteArchiveError)
    assert f"found:    {found}\n" in str(error)


SAVED: dict[str, tuple[JsonValue, type[BuildError], str]] = {
    "an object": ({}, MalformedDocumentError, "images"),
    "no config": ([{"Layers": []}], MalformedDocumentError, "Config"),
    "a config that is not there": (
        [{"Config": "x.json", "Layers": []}],
        IncompleteArchiveError,
        "a member x.json",
    ),
    "a config of a digest that is not there": (
        [{"Config": "0" * 64 + ".json", "Layers": []}],
        MissingBlobError,
        "sha256:" + "0" * 64,
    ),
    "a config of another digest": (
        [{"Config": "1" * 64 + ".json", "Layers": []}],
        DigestMismatchError,
        "sha256:" + "1" * 64,
    ),
    "too few layers": ([{"Config": "c.json", "Layers": []}], LayerCountError, "c.json"),
    "a layer that is not there": (
        [{"Config": "c.json", "Layers": ["a/layer.tar"]}],
        IncompleteArchiveError,
        "a member a/layer.tar",
    ),
}


@pytest.mark.parametrize(("listed", "kind", "word"), SAVED.values(), ids=SAVED)
def test_a_list_of_images_that_does_not_fit_is_told(
    tmp_path: Path, listed: JsonValue, kind: type[BuildError], word: str
) -> None:
    config = json.dumps(config_document(digest_bytes(LAYER))).encode()
    error = error_of(
        tmp_path,
        tar_of(
            file("c.json", config),
            file("1" * 64 + ".json", config),
            file("manifest.json", json.dumps(listed).encode()),
        ),
    )

    assert type(error) is kind
    assert word in str(error)


def test_a_list_that_is_no_json_is_told(tmp_path: Path) -> None:
    error = error_of(tmp_path, tar_of(file("manifest.json", b"no json")))

    assert isinstance(error, MalformedDocumentError)
    assert "/manifest.json: not the list of images" in str(error)


def test_a_layer_with_other_bytes_is_found_when_it_is_read(tmp_path: Path) -> None:
    members = saved_members(published(), layers=[LAYER.replace(b"xx", b"yy")])
    source = source_of(tmp_path, tar_of(*members))
    (root,) = source.roots()

    with pytest.raises(InvalidImageError) as caught:
        validate_image(source, root)
    assert [type(problem) for problem in caught.value.problems] == [DigestMismatchError]


def test_a_huge_member_is_not_read_as_a_document(tmp_path: Path) -> None:
    source = source_of(tmp_path, tar_of(*layout_members(published(bytes(MAX_DOCUMENT_BYTES + 1)))))
    digest = digest_bytes(bytes(MAX_DOCUMENT_BYTES + 1))

    with pytest.raises(MalformedDocumentError):
        source.document(digest, media_type=OCI_CONFIG)


def test_no_room_to_unpack_is_told_with_the_folder(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    with pytest.raises(StorageError) as caught:
        source_of(tmp_path, gzip.compress(tar_of(*layout_members(published())))).roots()

    assert caught.value.place == f"{tmp_path}/spool"
    assert "cannot unpack an archive" in str(caught.value)


@pytest.mark.parametrize("limit_bytes", [100, 2**16])
def test_a_disk_that_takes_no_more_while_it_is_unpacked_is_told(
    tmp_path: Path, limit_bytes: int
) -> None:
    source = source_of(tmp_path, gzip.compress(bytes(limit_bytes * 2)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        with pytest.raises(StorageError, match="cannot unpack an archive"):
            source.roots()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "spool").iterdir()) == []
