"""What we write is what others read; what others write is what we read."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from builder.errors import BuildError
from builder.oci.decompress import GZIP_MAGIC, ZSTD_MAGIC
from builder.oci.layers import read_layer
from builder.oci.tar import TarEntry, TarKind, ordered, write_tar
from builder.oci.tree import Kind
from builder.oci.untar import TarStream, UntarError
from tests.fakes import MemoryBlobs, pieces
from tests.unit.oci.archives import gzip_layer, plain_layer

DECODE = "surrogateescape"
FITTING_BYTES = 90
"""A path or link shorter than this needs no pax record, so it may hold any bytes."""


def plain_name(name: str) -> bool:
    return name not in ("", ".", "..") and not name.startswith(".wh.") and not {"/", "\0"} & {*name}


def holdable(text: str) -> bool:
    """Whether the format can hold the text: long ones must be UTF-8."""
    raw = text.encode(errors=DECODE)
    return len(raw) < FITTING_BYTES or raw.decode(errors="replace").encode() == raw


NAMES = st.one_of(
    st.sampled_from(["a", "b", "a.b", "a-b", "z", "ä", "a" * 99, "a" * 100, "a" * 101, "n" * 200]),
    st.binary(min_size=1, max_size=6).map(lambda raw: raw.decode(errors=DECODE)),
).filter(plain_name)
TIMES = st.integers(0, 2**33 - 1)
IDS = st.integers(0, 2**21 - 1)
MODES = st.integers(0, 0o777).map(lambda mode: mode | 0o400)


@st.composite
def attributes(draw: st.DrawFn, path: str) -> TarEntry:
    kind = draw(st.sampled_from([TarKind.FILE, TarKind.SYMLINK, TarKind.WHITEOUT]))
    entry = TarEntry(path, kind, draw(MODES), draw(TIMES), draw(IDS), draw(IDS))
    if kind is TarKind.SYMLINK:
        link = draw(st.lists(NAMES, min_size=1, max_size=3).map("/".join).filter(holdable))
        return TarEntry(path, kind, 0o777, entry.mtime, entry.uid, entry.gid, link=link)
    if kind is TarKind.FILE:
        content = draw(st.binary(max_size=1500))
        return TarEntry(path, kind, entry.mode, entry.mtime, entry.uid, entry.gid, content=content)
    return entry


@st.composite
def trees(draw: st.DrawFn) -> tuple[TarEntry, ...]:
    """Entries of a layer, every directory among them, in any order."""
    leaves = draw(st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), max_size=8))
    paths = {path for path in leaves if holdable(path + "/.wh.")}
    above = {
        "/".join(parts[:count])
        for parts in (path.split("/") for path in paths)
        for count in range(1, len(parts))
    }
    entries = [draw(attributes(path)) for path in sorted(paths - above)]
    entries += [
        TarEntry(path, TarKind.DIRECTORY, draw(MODES) | 0o700, draw(TIMES), draw(IDS), draw(IDS))
        for path in sorted(above)
    ]
    return tuple(draw(st.permutations(entries)))


def stored_path(entry: TarEntry) -> str:
    if entry.kind is not TarKind.WHITEOUT:
        return entry.path
    directory, slash, name = entry.path.rpartition("/")
    return f"{directory}{slash}.wh.{name}"


def archive_of(entries: tuple[TarEntry, ...]) -> bytes:
    return b"".join(write_tar(ordered(entries)))


def content_of(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info) if info.isreg() else None
    return file.read() if file else b""


@given(trees())
def test_pythons_tarfile_reads_exactly_what_was_written(entries: tuple[TarEntry, ...]) -> None:
    flags = {
        TarKind.FILE: tarfile.REGTYPE,
        TarKind.WHITEOUT: tarfile.REGTYPE,
        TarKind.DIRECTORY: tarfile.DIRTYPE,
        TarKind.SYMLINK: tarfile.SYMTYPE,
    }
    with tarfile.open(fileobj=io.BytesIO(archive_of(entries)), errors=DECODE) as archive:
        found = [
            (
                *(info.name, info.type, info.mode, info.mtime, info.uid, info.gid),
                *(info.uname, info.gname, info.linkname),
                content_of(archive, info),
            )
            for info in archive
        ]

    assert found == [
        (
            *(stored_path(item), flags[item.kind], item.mode, item.mtime, item.uid, item.gid),
            *("", "", item.link),
            item.content,
        )
        for item in ordered(entries)
    ]


@example((TarEntry("\x1f\udc8b", TarKind.FILE, 0o644, 0, 0, 0),))  # begins as gzip does
@given(trees())
def test_our_own_reader_reads_exactly_what_was_written(entries: tuple[TarEntry, ...]) -> None:
    data, blobs = archive_of(entries), MemoryBlobs()
    assume(not data.startswith((GZIP_MAGIC, ZSTD_MAGIC)))  # engines would be misled, too
    listing = read_layer(pieces(data), plain_layer(data), keep=lambda _: True, blobs=blobs)

    expected = [item for item in ordered(entries) if item.kind is not TarKind.WHITEOUT]
    assert [
        TarEntry(
            item.path,
            TarKind(item.kind.value),
            item.mode,
            item.mtime,
            item.uid,
            item.gid,
            item.link,
            blobs.read(item.content) if item.content else b"",
        )
        for item in listing.entries
        if item.kind is not Kind.OTHER
    ] == expected
    hidden = [item.path for item in ordered(entries) if item.kind is TarKind.WHITEOUT]
    assert list(listing.whiteouts) == hidden


@given(st.data())
def test_the_order_of_input_never_changes_a_byte(data: st.DataObject) -> None:
    entries = data.draw(trees())

    assert archive_of(tuple(data.draw(st.permutations(entries)))) == archive_of(entries)


@pytest.mark.skipif(shutil.which("tar") is None, reason="GNU tar is not installed")
@settings(max_examples=40)
@given(trees())
def test_gnu_tar_extracts_exactly_what_was_written(entries: tuple[TarEntry, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["tar", "-x", "-p", "--numeric-owner", "--delay-directory-restore", "-C", folder],
            input=archive_of(entries),
            check=True,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        for entry in entries:
            check_extracted(Path(folder) / stored_path(entry), entry)
        count = sum(1 for _ in Path(folder).rglob("*"))
    assert count == len(entries)


def check_extracted(path: Path, entry: TarEntry) -> None:
    found = path.lstat()
    assert int(found.st_mtime) == entry.mtime
    if os.geteuid() == 0:
        assert (found.st_uid, found.st_gid) == (entry.uid, entry.gid)
    if entry.kind is TarKind.SYMLINK:
        assert str(path.readlink()) == str(Path(entry.link))
        assert os.readlink(path) == entry.link  # noqa: PTH115 - Path.readlink normalises
        return
    assert stat.S_IMODE(found.st_mode) == entry.mode
    assert path.is_dir() == (entry.kind is TarKind.DIRECTORY)
    if path.is_file():
        assert path.read_bytes() == entry.content


@st.composite
def members(draw: st.DrawFn) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo("/".join(draw(st.lists(NAMES, min_size=1, max_size=3))))
    info.type = draw(
        st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])
    )
    info.mode = draw(st.integers(0, 0o7777))
    info.uid, info.gid = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**31))
    info.mtime = draw(st.integers(-(2**40), 2**40))
    data = draw(st.binary(max_size=1500)) if info.isreg() else b""
    info.size = len(data)
    if info.issym() or info.islnk():
        info.linkname = "/".join(draw(st.lists(NAMES, min_size=1, max_size=40)))
    return info, data


@given(st.lists(members(), max_size=5), st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]))
def test_we_read_what_pythons_tarfile_writes(
    wanted: list[tuple[tarfile.TarInfo, bytes]], format_: int
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format_, errors=DECODE) as archive:
        for info, data in wanted:
            archive.addfile(info, io.BytesIO(data))
    stream = TarStream(pieces(buffer.getvalue()))

    found = [
        (
            *(item.path.removesuffix("/"), item.flag, item.mode, item.uid, item.gid, item.mtime),
            *(item.link, b"".join(stream.content())),
        )
        for item in stream
    ]
    assert found == [
        (
            *(info.name, info.type, info.mode, info.uid, info.gid, info.mtime),
            *(info.linkname, data),
        )
        for info, data in wanted
    ]


BASE = archive_of(
    (
        TarEntry("d", TarKind.DIRECTORY, 0o755, 1),
        TarEntry("d/" + "n" * 120, TarKind.FILE, 0o755, 1, content=b"abc"),
        TarEntry("l", TarKind.SYMLINK, 0o777, 1, link="t" * 120),
    )
)
CHANGES = st.lists(st.tuples(st.integers(0, len(BASE) - 1), st.integers(0, 255)), max_size=6)


def changed(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    result = bytearray(data)
    for position, byte in changes:
        result[position % len(result)] = byte
    return bytes(result)


@settings(max_examples=300)
@given(CHANGES, st.integers(0, len(BASE)))
def test_a_damaged_archive_is_read_or_refused_and_never_crashes(
    changes: list[tuple[int, int]], end: int
) -> None:
    stream = TarStream(pieces(changed(BASE, changes)[:end]))

    with suppress(UntarError):
        for _ in stream:
            list(stream.content())


def resummed(data: bytes, start: int) -> bytes:
    """The archive with the checksum of the header at `start` made right again."""
    head = data[start : start + 512]
    total = sum(head) - sum(head[148:156]) + 8 * ord(" ")
    return data[: start + 148] + b"%06o\0 " % total + data[start + 156 :]


@settings(max_examples=300)
@given(CHANGES, st.sampled_from([0, 512, 512 + 1024]))
def test_a_header_with_any_fields_is_read_or_refused_by_name(
    changes: list[tuple[int, int]], start: int
) -> None:
    local = [(start + position % 512, byte) for position, byte in changes]
    data = resummed(changed(BASE, local), start)

    with suppress(BuildError):
        read_layer(pieces(data), plain_layer(data), keep=lambda _: True, blobs=MemoryBlobs())


@given(CHANGES)
def test_a_damaged_gzip_layer_is_refused_by_name(changes: list[tuple[int, int]]) -> None:
    stored = gzip.compress(BASE, mtime=0)
    damaged = changed(stored, changes)
    if damaged != stored:
        with pytest.raises(BuildError):
            read_layer(
                pieces(damaged), gzip_layer(stored), keep=lambda _: False, blobs=MemoryBlobs()
            )
