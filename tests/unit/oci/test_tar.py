from __future__ import annotations

import io
import tarfile
import tracemalloc
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from builder.oci.image_errors import (
    ContentSizeError,
    DuplicateEntryError,
    MissingParentError,
    UnwritableEntryError,
)
from builder.oci.tar import (
    EntryOrderError,
    LazyContent,
    TarEntry,
    TarKind,
    file_entry,
    ordered,
    whiteout_entry,
    write_tar,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def directory(path: str, mode: int = 0o755) -> TarEntry:
    return TarEntry(path, TarKind.DIRECTORY, mode, 5)


def a_file(path: str, data: bytes = b"") -> TarEntry:
    return file_entry(path, data, mode=0o644, mtime=5)


def names(*entries: TarEntry) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(write_tar(ordered(entries))))) as archive:
        return archive.getnames()


def test_an_empty_archive_is_two_zero_blocks() -> None:
    assert b"".join(write_tar(())) == bytes(1024)


def test_a_file_takes_a_header_its_blocks_and_no_record_padding() -> None:
    assert len(b"".join(write_tar([a_file("a", b"x" * 513)]))) == 512 + 2 * 512 + 1024


def test_entries_come_depth_first_although_a_dot_sorts_before_a_slash() -> None:
    assert names(a_file("a.py"), a_file("a/z"), directory("a"), a_file("A")) == [
        "A",
        "a",
        "a/z",
        "a.py",
    ]


def test_a_directorys_whiteouts_follow_it_directly() -> None:
    assert names(a_file("a/-"), whiteout_entry("a/z", mtime=5), directory("a")) == [
        "a",
        "a/.wh.z",
        "a/-",
    ]


def test_whiteouts_at_the_root_come_first() -> None:
    assert names(a_file("a"), whiteout_entry("z", mtime=5)) == [".wh.z", "a"]


@pytest.mark.parametrize("second", [a_file("a"), directory("a"), whiteout_entry("a", mtime=5)])
def test_one_path_twice_is_refused(second: TarEntry) -> None:
    with pytest.raises(DuplicateEntryError) as caught:
        ordered([a_file("a"), second])

    assert caught.value.path == "a"


def test_the_writer_itself_refuses_a_duplicate() -> None:
    with pytest.raises(DuplicateEntryError):
        list(write_tar([a_file("a"), a_file("a")]))


def test_the_writer_refuses_entries_out_of_order() -> None:
    with pytest.raises(EntryOrderError):
        list(write_tar([a_file("b"), a_file("a")]))


@pytest.mark.parametrize(
    "above",
    [
        [],
        [directory("b")],
        [TarEntry("a", TarKind.SYMLINK, 0o777, 5, link="b")],
        [a_file("a")],
        [directory("a"), a_file("a/c")],
    ],
)
def test_an_entry_whose_directory_is_no_entry_is_refused(above: list[TarEntry]) -> None:
    below = a_file("a/c/d") if len(above) > 1 else a_file("a/c")

    with pytest.raises(MissingParentError):
        list(write_tar(ordered([*above, below])))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "./a",
        "../a",
        "a/..",
        "a\0",
        ".wh.a",
        ".wh.a/b",
        "é" * 128,
        "ab/" * 1365 + "a",
    ],
)
def test_a_path_that_is_not_plain_or_too_long_is_refused(path: str) -> None:
    with pytest.raises(UnwritableEntryError):
        list(write_tar([a_file(path)]))


@pytest.mark.parametrize(
    "entry",
    [
        replace(a_file("a"), mode=0o100644),
        replace(a_file("a"), mode=-1),
        replace(a_file("a"), uid=0o10000000),
        replace(a_file("a"), gid=-1),
        replace(a_file("a"), mtime=-1),
        replace(a_file("a"), mtime=2**33),
        replace(a_file("a"), link="b"),
        replace(directory("a"), content=b"x"),
        TarEntry("a", TarKind.SYMLINK, 0o777, 5),
        TarEntry("a", TarKind.SYMLINK, 0o777, 5, link="b\0c"),
        a_file("\udcff" * 101),
    ],
)
def test_what_the_format_cannot_hold_is_refused(entry: TarEntry) -> None:
    with pytest.raises(UnwritableEntryError) as caught:
        list(write_tar([entry]))

    assert "image path /" in str(caught.value)


def test_the_largest_attributes_that_fit_survive() -> None:
    entry = replace(a_file("a"), uid=2**21 - 1, gid=2**21 - 1, mtime=2**33 - 1, mode=0o7777)
    with tarfile.open(fileobj=io.BytesIO(b"".join(write_tar([entry])))) as archive:
        info = archive.getmember("a")

    assert (info.uid, info.gid, info.mtime, info.mode) == (
        2**21 - 1,
        2**21 - 1,
        2**33 - 1,
        0o7777,
    )


@pytest.mark.parametrize("size_bytes", [2, 4])
def test_content_of_another_size_than_promised_is_an_error(size_bytes: int) -> None:
    entry = a_file("a")
    wrong = replace(entry, content=LazyContent(size_bytes, lambda: [b"abc"]))

    with pytest.raises(ContentSizeError) as caught:
        list(write_tar([wrong]))

    assert f"not {size_bytes}" in caught.value.reason


@pytest.mark.parametrize(("extra", "needs_pax"), [("", False), ("n", True)])
def test_only_a_name_that_the_ustar_fields_cannot_hold_gets_a_pax_header(
    extra: str,
    needs_pax: bool,  # noqa: FBT001 - a parameter of the table above
) -> None:
    above = directory("d" * 99)
    below = a_file(f"{above.path}/{'n' * 100}{extra}")

    data = b"".join(write_tar([above, below]))

    assert (b"PaxHeader" in data) == needs_pax
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getnames() == [above.path, below.path]


def test_a_file_beyond_8_gib_is_announced_in_a_pax_record() -> None:
    size_bytes = 8 * 2**30
    entry = replace(a_file("big"), content=LazyContent(size_bytes, lambda: iter([b"x"])))
    headers = next(iter(write_tar([entry])))

    with tarfile.open(fileobj=io.BytesIO(headers)) as archive:
        first = archive.next()

    assert first is not None
    assert (first.name, first.size) == ("big", size_bytes)
    assert b"size=8589934592\n" in headers


def test_memory_does_not_grow_with_content() -> None:
    chunk = bytes(2**20)

    def many() -> Iterator[bytes]:
        yield from islice(iter(lambda: chunk, b""), 200)

    entry = replace(a_file("big"), content=LazyContent(200 * 2**20, many))
    tracemalloc.start()
    total = sum(len(piece) for piece in write_tar([entry]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert total == 200 * 2**20 + 3 * 512
    assert peak < 2**20
