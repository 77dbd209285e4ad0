"""Layers made to do harm: each ends in one error that says what it is, or reads as engines do."""

from __future__ import annotations

import gzip
import tarfile
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.oci import layers, limits, whiteout
from builder.oci.errors import (
    DanglingHardLinkError,
    LayerError,
    MalformedLayerError,
    UnsafePathError,
)
from builder.oci.layers import read_layer
from builder.oci.limits import (
    MAX_PATH_BYTES,
    LayerTooLargeError,
    PathTooLongError,
    TooManyEntriesError,
)
from builder.oci.tree import ImageTree, Kind
from builder.oci.whiteout import read_tree
from tests.fakes import MemoryBlobs, pieces
from tests.unit.oci.archives import (
    Published,
    directory,
    file,
    gzip_layer,
    hard_link,
    listing,
    read,
    special,
    symlink,
    tar_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable


Member = tuple[tarfile.TarInfo, bytes]


def stacked(*tars: bytes) -> ImageTree:
    published = Published()
    image = published.image(*tars)
    return read_tree(published.source, image.layers, keep=lambda _: False, blobs=MemoryBlobs())


def patched(member: Member, at: int, field: bytes) -> bytes:
    """An archive of one member with a field of its header changed, the checksum right."""
    header = bytearray(tar_of(member, format=tarfile.GNU_FORMAT))
    header[at : at + len(field)] = field
    total = sum(header[:512]) - sum(header[148:156]) + 8 * ord(" ")
    header[148:156] = b"%06o\0 " % total
    return bytes(header)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../a",
            "/../a",
            "a/../../b",
            "./../a",
            "..",
            "a/..",
            "/..",
            "a/./../b",
            "../../etc/passwd",
        ),
        *(".wh..", ".wh...", "d/.wh..", ".wh.", "d/.wh.", "../.wh.a", "a/../.wh.b"),
    ],
)
@pytest.mark.parametrize(
    "kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE]
)
def test_a_path_that_climbs_is_refused_whatever_it_is(name: str, kind: bytes) -> None:
    with pytest.raises(UnsafePathError) as caught:
        listing(special(name, kind, "a"))

    assert caught.value.path.removesuffix("/") == name
    assert name in str(caught.value)


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../..", "/", "loop", "a/" * 2000, "/proc/self"]
)
def test_a_symlink_may_say_what_it_likes_and_nobody_follows_it_out(target: str) -> None:
    tree = stacked(tar_of(symlink("loop", target), file("loop2", b"x")))

    assert tree.entries["loop"].link == target
    for path in tree.entries:
        assert not path.startswith(("/", ".."))


def test_links_that_climb_end_at_the_root() -> None:
    tree = stacked(tar_of(directory("etc"), file("etc/x"), symlink("up", "../../../etc/x")))

    assert tree.resolve("up") == "etc/x"


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_known_and_never_read(kind: bytes) -> None:
    data = tar_of(special("dev/x", kind), file("after", b"1"))
    blobs = MemoryBlobs()

    found = {item.path: item for item in read(data, "dev/x", "after", blobs=blobs).entries}
    assert found["dev/x"].kind is Kind.OTHER
    assert found["after"].content == digest_bytes(b"1")
    assert list(blobs.data.values()) == [b"1"]


@pytest.mark.parametrize(
    "size",
    [
        *(b"77777777777\0", b"\x80" + bytes(3) + b"\x02" + bytes(7), b"\x80" + b"\xff" * 11),
        *(b"\xff" * 12, b"\xff" + bytes(11), b"-0000000001\0", b"0x000000010\0", b"99999999999\0"),
    ],
    ids=["8 GiB", "base-256 8 GiB", "base-256 2^88", "-1", "-2^88", "minus", "hex", "decimal"],
)
def test_a_size_that_the_archive_does_not_have_is_told_at_its_end(size: bytes) -> None:
    with pytest.raises(MalformedLayerError) as caught:
        read(patched(file("big", b"abc"), 124, size), "big")

    assert caught.value.reason in (
        "the archive ends too early",
        "a negative size",
        f"a header field that is no number: {size!r}",
    )


@pytest.mark.parametrize("flag", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, b"3", b"6"])
def test_a_size_of_what_has_no_content_skips_nothing(flag: bytes) -> None:
    first = patched(special("a", flag, "a"), 124, b"00000001000\0")[:512]

    paths = [item.path for item in read(first + tar_of(file("b"))).entries]
    assert paths == (["b"] if flag == tarfile.LNKTYPE else ["a", "b"])


def pax(record: bytes, size: int | None = None) -> bytes:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, len(record) if size is None else size
    block = header.tobuf(tarfile.USTAR_FORMAT)
    return block + record.ljust(-(-len(record) // 512) * 512, b"\0") + tar_of(file("a", b"1"))


def record(key: bytes, value: bytes) -> bytes:
    rest = b" %s=%s\n" % (key, value)
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return b"%d%s" % (length, rest)


@pytest.mark.parametrize(
    ("record_", "reason"),
    [
        (b"99999999999999999999 path=a\n", "malformed"),
        (b"5\n", "malformed"),
        (b"0 path=a\n", "malformed"),
        (b"+9 path=a\n", "malformed"),
        (b"\xb2 path=a\n", "malformed"),
        (b"9 path=ab", "malformed"),
        (record(b"size", b"-1"), "negative size"),
        (record(b"size", b"9" * 40), "no number"),
        (record(b"size", b"1e3"), "no number"),
        (record(b"size", b"\xd9\xa1"), "no number"),
        (record(b"uid", b"0x1"), "no number"),
        (record(b"mtime", b"nan"), "no number"),
        (record(b"size", b"9" * 18), "ends too early"),
    ],
)
def test_pax_records_that_are_not_right_are_refused(record_: bytes, reason: str) -> None:
    with pytest.raises(MalformedLayerError) as caught:
        read(pax(record_), "a")
    assert reason in caught.value.reason


def test_an_extended_header_of_gigabytes_is_refused_before_it_is_read() -> None:
    with pytest.raises(MalformedLayerError) as caught:
        read(pax(record(b"path", b"x"), size=2**32))
    assert caught.value.reason == f"an extended header of {2**32} bytes"


@pytest.mark.parametrize("format_", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("size", [300, MAX_PATH_BYTES])
def test_a_long_name_is_read_as_far_as_linux_takes_it(format_: int, size: int) -> None:
    name = ("d" * 99 + "/") * (size // 100) + "n" * (size % 100)
    members = (file(name), symlink("l", name))

    found = read(tar_of(*members, format=format_)).entries
    assert [(item.path, item.link) for item in found] == [(name.rstrip("/"), ""), ("l", name)]


@pytest.mark.parametrize("format_", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("size", [MAX_PATH_BYTES + 1, 64 * 2**10])
@pytest.mark.parametrize(
    "make", [file, lambda name: symlink("l", name), lambda n: hard_link("h", n)]
)
def test_a_name_longer_than_linux_takes_is_refused(
    format_: int, size: int, make: Callable[[str], Member]
) -> None:
    with pytest.raises(PathTooLongError) as caught:
        read(tar_of(make("n" * size), format=format_))

    assert caught.value.size_bytes == size
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", [b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80", b"a\x1b[2Jb", b"\n"])
def test_a_name_of_any_bytes_keeps_them_and_its_message_is_text(name: bytes) -> None:
    text = name.decode(errors="surrogateescape")
    (entry,) = listing(file(text)).entries
    assert entry.path.encode(errors="surrogateescape") == name

    with pytest.raises(UnsafePathError) as caught:
        listing(file(f"../{text}"))
    assert str(caught.value).isprintable() or "\n" in str(caught.value)
    assert "\x1b" not in str(caught.value).encode().decode()


def test_an_empty_name_is_the_root_and_only_a_folder_can_be() -> None:
    assert [item.path for item in listing(directory("")).entries] == [""]
    with pytest.raises(UnsafePathError):
        listing(file(""))


@pytest.mark.parametrize("target", ["x", "/x", "../x", "./y/../x"])
def test_links_of_the_same_layer_are_followed_as_engines_do(target: str) -> None:
    # Seen on 20.10.24 and on 26.1.5 with the containerd store.
    found = stacked(
        tar_of(directory("x"), symlink("l", target), file("l/f", b"1"), hard_link("h", "l/f"))
    )
    assert set(found.entries) == {"x", "x/f", "l", "h"}
    assert found.entries["l"].kind is Kind.SYMLINK

    found = stacked(tar_of(file("x/f")), tar_of(symlink("l", target), file("l/.wh.f")))
    assert set(found.entries) == {"x", "l"}


def test_links_of_a_layer_below_are_replaced_as_engines_do() -> None:
    found = stacked(tar_of(directory("x"), symlink("l", "x")), tar_of(file("l/f")))
    assert set(found.entries) == {"x", "l", "l/f"}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ((file("l"), file("l/f")), "a path below a file of the same layer"),
        ((file("a"), symlink("l", "a"), file("l/f")), "a path below a file of the same layer"),
        ((file("l/e/f"), file("l"), file("l/e/g")), "a path below a file of the same layer"),
        ((symlink("l", "m"), symlink("m", "l"), file("l/f")), "its folder is a loop of links"),
    ],
)
def test_what_no_engine_unpacks_is_refused(members: tuple[Member, ...], reason: str) -> None:
    with pytest.raises(MalformedLayerError) as caught:
        listing(*members)
    assert caught.value.reason == reason


def test_a_folder_replaced_by_a_file_and_back_again_has_no_old_children() -> None:
    first = tar_of(directory("d"), file("d/old"), directory("d/e"), file("d/e/f"))
    tree = stacked(first, tar_of(file("d")), tar_of(directory("d"), file("d/new")))
    assert set(tree.entries) == {"d", "d/new"}


@pytest.mark.parametrize("between", [file("d"), symlink("d", "e"), special("d", tarfile.FIFOTYPE)])
def test_a_folder_that_becomes_a_file_and_a_folder_again_in_one_layer_is_refused(
    between: Member,
) -> None:
    with pytest.raises(MalformedLayerError) as caught:
        listing(directory("d"), file("d/old"), between, directory("d"), file("d/new"))
    assert (caught.value.entry, caught.value.reason) == ("d", "a folder in the place of a file")


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ((), (hard_link("h", "nothing"),)),
        ((), (hard_link("h", "h"),)),
        ((), (hard_link("h", "i"), hard_link("i", "h"))),
        ((file("a"),), (file(".wh.a"), hard_link("h", ".wh.a"))),
        ((directory("a"),), (hard_link("h", "a"),)),
        ((file("b"),), (hard_link("h", "b/c"),)),
    ],
    ids=["nothing", "itself", "each other", "a whiteout", "a folder", "below a file"],
)
def test_a_hard_link_to_no_file_is_told_with_both_paths(
    lower: tuple[Member, ...], upper: tuple[Member, ...]
) -> None:
    with pytest.raises(DanglingHardLinkError) as caught:
        stacked(tar_of(*lower), tar_of(*upper))
    assert caught.value.path in ("h", "i")


def test_a_hard_link_reaches_through_layers_to_what_its_own_layer_hides() -> None:
    tree = stacked(
        tar_of(file("a", b"123")), tar_of(file("x")), tar_of(file(".wh.a"), hard_link("h", "a"))
    )

    assert "a" not in tree.entries
    assert tree.entries["h"].size_bytes == 3


@pytest.mark.parametrize("name", [".wh..wh.plnk", ".wh..wh.aufs", ".wh..wh.orph/x", "d/.wh..wh.x"])
def test_what_aufs_kept_for_itself_hides_nothing(name: str) -> None:
    assert set(stacked(tar_of(file("d/a")), tar_of(file(name))).entries) == {"d", "d/a"}


def test_a_layer_cut_anywhere_is_refused_or_is_a_shorter_archive() -> None:
    whole = tar_of(directory("d"), file("d/a", b"x" * 600), symlink("l" * 120, "t" * 120))
    complete = [item.path for item in read(whole).entries]
    for end in range(1, 6 * 512, 50):
        try:
            found = read(whole[:end])
        except LayerError:
            continue
        assert end % 512 == 0
        assert [item.path for item in found.entries] == complete[: len(found.entries)]


def test_what_follows_the_archive_is_hashed_and_never_read() -> None:
    evil = tar_of(file("../evil"))
    assert [item.path for item in read(tar_of(file("a")) + evil).entries] == ["a"]


def test_a_layer_may_not_unpack_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FREE_PLAIN_BYTES", 2**20)
    stored = gzip.compress(tar_of(file("zeros", bytes(20 * 2**20))))
    few = gzip.compress(tar_of(file("zeros", bytes(2**19))))

    with pytest.raises(LayerTooLargeError) as caught:
        read_layer(pieces(stored), gzip_layer(stored), keep=lambda _: True, blobs=MemoryBlobs())
    assert caught.value.limit_bytes == max(2**20, 100 * len(stored))
    read_layer(pieces(few), gzip_layer(few), keep=lambda _: True, blobs=MemoryBlobs())


def test_what_compresses_as_files_do_may_be_as_large_as_it_likes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FREE_PLAIN_BYTES", 0)
    text = b"".join(b"line %d of a text that compresses well\n" % number for number in range(10**4))
    stored = gzip.compress(tar_of(file("text", text)))

    assert len(stored) < len(text) / 5
    read_layer(pieces(stored), gzip_layer(stored), keep=lambda _: True, blobs=MemoryBlobs())


def few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (layers, whiteout):
        monkeypatch.setattr(module, "MAX_ENTRIES", 100)


@pytest.mark.parametrize("name", ["f{}", ".wh.f{}", "same", "d/.wh..wh..opq", ".wh..wh.x{}"])
def test_a_layer_with_too_many_entries_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    few_entries(monkeypatch)
    members = [file(name.format(number)) for number in range(101)]

    listing(*members[:100])
    with pytest.raises(TooManyEntriesError):
        listing(*members)


def test_layers_with_too_many_entries_together_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few_entries(monkeypatch)
    tars = [tar_of(*(file(f"{layer}-{number}") for number in range(40))) for layer in range(3)]

    assert len(stacked(*tars[:2]).entries) == 80
    with pytest.raises(TooManyEntriesError):
        stacked(*tars)


def test_folders_that_nobody_states_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    few_entries(monkeypatch)
    deep = "/".join("a" * 40)

    assert len(stacked(tar_of(file(f"{deep}/1"), file(f"{deep}/2"))).entries) == 42
    with pytest.raises(TooManyEntriesError):
        stacked(tar_of(*(file(f"{number}/{deep}/x") for number in range(3))))
