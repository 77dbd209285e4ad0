from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import pytest

from builder.digest import Digest, Hasher, digest_bytes
from builder.oci.errors import (
    DiffIdMismatchError,
    DigestMismatchError,
    MalformedLayerError,
    SizeMismatchError,
    TruncatedBlobError,
    UnsafePathError,
    UnsupportedCompressionError,
)
from builder.oci.layers import HardLink, read_layer, read_layers
from builder.oci.model import OCI_LAYER_GZIP, OCI_LAYER_TAR, Descriptor, Layer
from builder.oci.tar import LazyContent, TarEntry, TarKind, write_tar
from builder.oci.tree import Kind
from tests.fakes import MemoryBlobs, pieces
from tests.unit.oci.archives import (
    Published,
    directory,
    file,
    gzip_layer,
    hard_link,
    listing,
    plain_layer,
    read,
    special,
    symlink,
    tar_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from builder.oci.layers import LayerListing

SOME = tar_of(directory("d"), file("d/a", b"abc"), file("d/b", b"x" * 3000, mode=0o755))


def nothing(_path: str) -> bool:
    return False


def read_as(chunks: Iterable[bytes], layer: Layer) -> LayerListing:
    return read_layer(chunks, layer, keep=nothing, blobs=MemoryBlobs())


def test_entries_come_in_archive_order_with_their_attributes() -> None:
    info, data = file("b", b"hi", mode=0o640)
    info.uid, info.gid, info.mtime = 7, 8, 9
    found = listing((info, data), symlink("a", "../x"), special("dev", tarfile.CHRTYPE))

    assert [(item.path, item.kind) for item in found.entries] == [
        ("b", Kind.FILE),
        ("a", Kind.SYMLINK),
        ("dev", Kind.OTHER),
    ]
    first, link, _ = found.entries
    assert (first.mode, first.uid, first.gid, first.mtime, first.size_bytes) == (0o640, 7, 8, 9, 2)
    assert first.layer == found.layer.descriptor.digest
    assert (link.link, link.size_bytes) == ("../x", 0)


@pytest.mark.parametrize("name", ["d/x", "./d/x", "/d/x", ".//d/./x", "//d//x"])
def test_names_are_normalised(name: str) -> None:
    assert listing(file(name)).entries[0].path == "d/x"


def test_the_dot_entry_is_the_root() -> None:
    root, _ = listing(directory("./"), file("./a")).entries

    assert (root.path, root.kind, root.mode) == ("", Kind.DIRECTORY, 0o755)


def test_wanted_files_are_kept_and_others_are_not() -> None:
    blobs = MemoryBlobs()
    entries = read(SOME, "d/b", blobs=blobs).entries

    assert [item.content for item in entries] == [None, None, digest_bytes(b"x" * 3000)]
    assert list(blobs.data.values()) == [b"x" * 3000]


@pytest.mark.parametrize("keep", [(), ("s",)])
def test_executables_show_their_first_bytes(keep: tuple[str, ...]) -> None:
    script = b"#!/bin/sh\n" + b"#" * 5000
    entries = read(tar_of(file("s", script, mode=0o711), file("t", script)), *keep).entries

    assert [item.head for item in entries] == [script[:256], b""]


@pytest.mark.parametrize("cuts", [(), (600,), (1, 700), (512, 512)])
def test_gzip_of_one_or_more_members_reads_like_the_plain_layer(cuts: tuple[int, ...]) -> None:
    edges = [0, *cuts, len(SOME)]
    parts = [SOME[start:end] for start, end in pairwise(edges)]
    stored = b"".join(gzip.compress(part) for part in parts)
    layer = gzip_layer(stored)

    plain = [(item.path, item.size_bytes, item.head) for item in read(SOME).entries]
    found = read_as(pieces(stored), layer).entries
    assert [(item.path, item.size_bytes, item.head) for item in found] == plain


def test_chunks_may_be_of_any_size() -> None:
    stored = gzip.compress(SOME)

    assert len(read_as((bytes([byte]) for byte in stored), gzip_layer(stored)).entries) == 3
    assert len(read_as((bytes([byte]) for byte in SOME), plain_layer(SOME)).entries) == 3


def test_zeros_after_the_last_gzip_member_are_padding() -> None:
    stored = gzip.compress(SOME) + bytes(1000)

    assert len(read_as([stored[:-900], stored[-900:]], gzip_layer(stored)).entries) == 3


@pytest.mark.parametrize("tail", [0, 512, 1024])
def test_an_archive_may_lack_its_zero_blocks(tail: int) -> None:
    data = tar_of(file("a"), format=tarfile.USTAR_FORMAT)[:512] + bytes(tail)

    assert [item.path for item in read(data).entries] == ["a"]


def test_bytes_after_the_archives_end_are_hashed_and_not_read() -> None:
    assert [item.path for item in read(tar_of(file("a")) + b"junk" * 999).entries] == ["a"]


def test_a_changed_byte_is_named_as_a_damaged_blob() -> None:
    damaged = bytearray(SOME)
    damaged[-1500] ^= 1

    with pytest.raises(DigestMismatchError) as caught:
        read_as(pieces(bytes(damaged)), plain_layer(SOME))
    assert caught.value.expected == digest_bytes(SOME)


@pytest.mark.parametrize("position", [0, 5, 20, -3])
def test_damage_that_breaks_gzip_or_tar_is_still_named_as_a_damaged_blob(position: int) -> None:
    for stored, layer in (
        (gzip.compress(SOME), gzip_layer(gzip.compress(SOME))),
        (SOME, plain_layer(SOME)),
    ):
        damaged = bytearray(stored)
        damaged[position] ^= 0xFF
        with pytest.raises(DigestMismatchError):
            read_as(pieces(bytes(damaged)), layer)


@pytest.mark.parametrize("end", [0, 100, 700, -1])
def test_a_cut_blob_is_named_as_cut(end: int) -> None:
    stored = gzip.compress(SOME + bytes(range(256)) * 40, 0)
    with pytest.raises(TruncatedBlobError) as caught:
        read_as(pieces(stored[:end]), gzip_layer(stored))

    assert caught.value.found_bytes == len(stored[:end])


def test_too_many_bytes_stop_the_reading() -> None:
    def endless() -> Iterator[bytes]:
        yield SOME
        while True:
            yield bytes(1000)

    with pytest.raises(SizeMismatchError):
        read_as(endless(), plain_layer(SOME))


def test_the_diff_id_is_checked() -> None:
    layer = Layer(plain_layer(SOME).descriptor, Digest("sha256:" + "0" * 64))

    with pytest.raises(DiffIdMismatchError) as caught:
        read_as([SOME], layer)
    assert caught.value.found == digest_bytes(SOME)


@pytest.mark.parametrize(("compress", "name"), [(lzma.compress, "xz"), (bz2.compress, "bzip2")])
def test_other_compressions_are_refused_by_name(
    compress: Callable[[bytes], bytes], name: str
) -> None:
    with pytest.raises(UnsupportedCompressionError) as caught:
        read(compress(SOME))

    assert caught.value.found == name
    assert "remedy:" in str(caught.value)


@pytest.mark.parametrize("format_", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_and_links_are_whole(format_: int) -> None:
    name, target = "d/" * 90 + "ä" * 60, "t/" * 200
    (entry,) = read(tar_of(symlink(name, target), format=format_)).entries

    assert (entry.path, entry.link) == (name, target)


@pytest.mark.parametrize("format_", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_that_are_not_utf8_keep_their_bytes(format_: int) -> None:
    (entry,) = read(tar_of(file("caf\udce9"), format=format_)).entries

    assert entry.path.encode(errors="surrogateescape") == b"caf\xe9"


def test_pax_times_lose_their_fraction() -> None:
    info, data = file("a")
    info.mtime = 1234.75

    assert read(tar_of((info, data))).entries[0].mtime == 1234


@pytest.mark.parametrize(("uid", "mtime"), [(2**21, 5), (2**31, -7), (3, 2**40)])
def test_large_and_negative_numbers_are_read_from_gnu_headers(uid: int, mtime: int) -> None:
    info, data = file("a")
    info.uid, info.mtime = uid, mtime
    (entry,) = read(tar_of((info, data), format=tarfile.GNU_FORMAT)).entries

    assert (entry.uid, entry.mtime) == (uid, mtime)


def test_global_pax_headers_are_ignored_as_engines_do() -> None:
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"path": "evil"}
    ) as archive:
        archive.addfile(file("good")[0])

    assert read(buffer.getvalue()).entries[0].path == "good"


def raw_header(name: str, kind: bytes, body: bytes) -> bytes:
    header = tarfile.TarInfo(name)
    header.type, header.size = kind, len(body)
    return header.tobuf(tarfile.GNU_FORMAT) + body.ljust(-(-len(body) // 512) * 512, b"\0")


def test_a_long_name_ends_at_its_first_nul_as_a_c_string_does() -> None:
    data = raw_header("././@LongLink", tarfile.GNUTYPE_LONGNAME, b"name\0rest\0") + tar_of(
        file("x")
    )

    assert [item.path for item in read(data).entries] == ["name"]


def test_an_empty_pax_value_leaves_what_the_header_says() -> None:
    records = b"".join(b"%d %s=\n" % (len(key) + 4, key) for key in (b"path", b"size", b"uid"))
    records += b"13 linkpath=\n"
    data = raw_header("x", tarfile.XHDTYPE, records) + tar_of(symlink("a", "b"))

    (entry,) = read(data).entries
    assert (entry.path, entry.link) == ("a", "b")


@pytest.mark.parametrize(
    "record", [b"10 path=a\0\n", b"17 linkpath=a\0bc\n", b"10 size=1.\n", b"10 size=.5\n"]
)
def test_pax_values_that_no_engine_takes_are_refused(record: bytes) -> None:
    data = raw_header("x", tarfile.XHDTYPE, record) + tar_of(file("a"))

    with pytest.raises(MalformedLayerError):
        read(data)


@pytest.mark.parametrize(("flag", "kind"), [(b"\0", Kind.DIRECTORY), (b"0", Kind.FILE)])
def test_a_slash_after_the_name_makes_a_directory_of_v7_archives_only(
    flag: bytes, kind: Kind
) -> None:
    header = raw_header("d/", flag, b"")

    assert [(item.path, item.kind) for item in read(header + bytes(1024)).entries] == [("d", kind)]


def test_a_sparse_file_is_known_and_not_read() -> None:
    info, data = file("GNUSparseFile.0/a", b"1\n0\n5\n".ljust(512, b"\0") + b"hello")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "a"}
    entries = read(tar_of((info, data), file("b")), "a").entries

    assert [(item.path, item.kind) for item in entries] == [("a", Kind.OTHER), ("b", Kind.FILE)]


def test_of_duplicates_the_last_counts() -> None:
    found = listing(file("a", b"1"), file("b"), symlink("a", "b"))

    assert [(item.path, item.kind) for item in found.entries] == [
        ("b", Kind.FILE),
        ("a", Kind.SYMLINK),
    ]


def test_whiteouts_and_opaque_markers_are_no_entries() -> None:
    found = listing(
        file(".wh.top"),
        file("d/.wh.a"),
        file("d/.wh..wh..opq"),
        file("./.wh..wh..opq"),
        file(".wh..wh.plnk/1.2"),
        file(".wh..wh.aufs"),
    )

    assert found.whiteouts == ("top", "d/a")
    assert found.opaques == ("d", "")
    assert found.entries == ()


@pytest.mark.parametrize("name", ["../a", "a/../../b", "a/..", ".wh...", "d/.wh..", "d/.wh."])
def test_paths_out_of_the_root_are_refused(name: str) -> None:
    with pytest.raises(UnsafePathError) as caught:
        listing(file(name))

    assert caught.value.path == name


def test_a_hard_link_out_of_the_root_is_refused() -> None:
    with pytest.raises(UnsafePathError):
        listing(hard_link("a", "../etc/shadow"))


def test_a_file_in_the_place_of_the_root_is_refused() -> None:
    with pytest.raises(UnsafePathError):
        listing(symlink(".", "/etc"))


def test_a_hard_link_is_its_target_as_of_that_moment() -> None:
    blobs = MemoryBlobs()
    data = tar_of(file("a", b"old", mode=0o755), hard_link("./b", "/a"), file("a", b"new"))
    found = {item.path: item for item in read(data, "a", "b", blobs=blobs).entries}

    assert found["b"].content == digest_bytes(b"old")
    assert (found["b"].mode, found["b"].head, found["b"].size_bytes) == (0o755, b"old", 3)
    assert found["a"].content == digest_bytes(b"new")


def test_a_hard_link_into_a_lower_layer_is_flagged() -> None:
    found = listing(hard_link("b", "a"), hard_link("c", "b"), file("a"))

    assert found.links == (HardLink("b", "a"), HardLink("c", "a"))
    assert [item.path for item in found.entries] == ["a"]


def test_a_kept_hard_link_to_a_file_not_kept_is_read_again() -> None:
    published = Published()
    data = tar_of(file("a", b"data"), hard_link("b", "a"), hard_link("c", "b"))
    (layer,) = published.image(data).layers
    blobs = MemoryBlobs()

    (found,) = read_layers(published.source, [(layer, lambda path: path == "c")], blobs)

    assert {item.path: item.content for item in found.entries}["c"] == digest_bytes(b"data")
    assert published.source.opened[layer.descriptor.digest] == 2


def broken(at: int, new: bytes) -> bytes:
    data = bytearray(tar_of(file("first"), file("second"), format=tarfile.USTAR_FORMAT))
    data[at : at + len(new)] = new
    return bytes(data)


def with_checksum(header: bytes) -> bytes:
    total = sum(header) - sum(header[148:156]) + 8 * 32
    return header[:148] + b"%06o\0 " % total + header[156:]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (broken(512, b"X"), "checksum"),
        (broken(512 + 148, b"not octa"), "no number"),
        (SOME[:1200], "ends too early"),
        (SOME[:300], "ends too early"),
        (b"no archive at all" * 100, "no number"),
        (bytes(512) + b"x" * 512, "zero block"),
        (
            with_checksum(
                file("a")[0].tobuf().replace(b"ustar\0", b"ustar\0")[:156] + b"V" + bytes(355)
            ),
            "type b'V'",
        ),
    ],
)
def test_a_malformed_archive_is_named_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedLayerError) as caught:
        read(data)

    assert reason in caught.value.reason
    assert "remedy:" in str(caught.value)


def test_a_malformed_archive_names_the_entry_it_happened_after() -> None:
    with pytest.raises(MalformedLayerError) as caught:
        read(broken(512, b"X"))

    assert caught.value.entry == "first"


@pytest.mark.parametrize(
    "record", [b"nonsense", b"8 path=a\n", b"99 path=a\n", b"10 path=a\n12", b"7 =abc\n", b"-1 x"]
)
def test_a_malformed_pax_header_is_refused(record: bytes) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, len(record)
    data = header.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b"\0") + tar_of(file("a"))

    with pytest.raises(MalformedLayerError):
        read(data)


@pytest.mark.parametrize("cut", [30, -5])
def test_gzip_that_is_what_its_digest_says_and_yet_broken_is_malformed(cut: int) -> None:
    stored = gzip.compress(SOME)[:cut]
    layer = Layer(Descriptor(OCI_LAYER_GZIP, digest_bytes(stored), len(stored)), digest_bytes(SOME))

    with pytest.raises(MalformedLayerError) as caught:
        read_as([stored], layer)
    assert "gzip" in caught.value.reason


def test_memory_does_not_grow_with_the_layer() -> None:
    size_bytes = 100 * 2**20

    def zeros() -> Iterator[bytes]:
        yield from islice(iter(lambda: bytes(2**18), b""), size_bytes // 2**18)

    def stored() -> Iterator[bytes]:
        entry = TarEntry("big", TarKind.FILE, 0o755, 0, content=LazyContent(size_bytes, zeros))
        return write_tar([entry])

    hasher = Hasher()
    for chunk in stored():
        hasher.update(chunk)
    layer = Layer(Descriptor(OCI_LAYER_TAR, hasher.digest(), hasher.size_bytes), hasher.digest())
    tracemalloc.start()
    (entry,) = read_as(stored(), layer).entries
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert entry.size_bytes == size_bytes
    assert peak < 4 * 2**20


def test_a_gzip_bomb_takes_time_but_no_memory() -> None:
    bomb = tar_of(file("zeros", bytes(50 * 2**20)))
    stored = gzip.compress(bomb)
    layer = gzip_layer(stored)
    tracemalloc.start()
    read_as([stored], layer)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 8 * 2**20
