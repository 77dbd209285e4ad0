"""The tar reader against Python's, and layers read as a build reads them."""

from __future__ import annotations

import io
import re
import tarfile
from itertools import pairwise
from typing import Final

from builder.errors import SparklockError
from builder.oci.layers import read_layer
from builder.oci.untar import (
    DIRECTORY,
    FILE,
    HARD_LINK,
    OTHERS,
    SPARSE,
    SYMLINK,
    TarStream,
    UntarError,
)
from tests.fakes import MemoryBlobs, pieces
from tests.fuzz.target import Target, told
from tests.unit.oci.archives import (
    directory,
    file,
    hard_link,
    plain_layer,
    special,
    symlink,
    tar_of,
)

BLOCK: Final = 512
_EXTENSIONS: Final = frozenset(b"xgLK")
_WITH_CONTENT: Final = frozenset(b"\x0007SxgLK")


def repaired(data: bytes) -> bytes:
    """The archive with every header's checksum and every pax record's length made right."""
    out = bytearray(data[: len(data) // BLOCK * BLOCK])
    position = 0
    while position + BLOCK <= len(out):
        block = out[position : position + BLOCK]
        if not any(block):
            position += BLOCK
            continue
        total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
        out[position + 148 : position + 156] = b"%06o\0 " % total
        size = _size(bytes(block[124:136])) if block[156] in _WITH_CONTENT else 0
        position += BLOCK
        if block[156] in b"x" and 0 < size <= len(out) - position:
            body = _records(bytes(out[position : position + size]))
            out[position : position + size] = body
        position += -(-size // BLOCK) * BLOCK
    return bytes(out)


def _size(field: bytes) -> int:
    if field[0] & 0x80:
        return 0
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        return 0


def _records(body: bytes) -> bytes:
    """As many bytes of pax records as before, each line's length right, the last one padded."""
    out = b""
    for line in body.split(b"\n"):
        record = line.partition(b" ")[2] or b"comment="
        length = len(record) + 3
        while length != len(record) + len(str(length)) + 2:
            length = len(record) + len(str(length)) + 2
        out += b"%d %s\n" % (length, record)
    if len(out) > len(body):
        return out[: len(body)]
    missing = len(body) - len(out)
    filler = b"%d a=" % missing
    return out + (filler.ljust(missing - 1, b"y") + b"\n" if missing > len(filler) else b"")


_NUMBERS: Final = (100, 108, 116, 124, 136)
_NUMBER: Final = re.compile(rb"\x80.*|\xff.*|\0*|[0-7]+[ \0]*", re.DOTALL)


class _Watched(tarfile.TarInfo):
    """Python's header reader, which tells where it goes ways of its own.

    It takes a damaged header for the archive's end, stops a number at its first NUL, and puts the
    prefix of formats that have none before a name. Go's reader, so every engine, does as ours.
    """

    apart: bool = False
    extended: frozenset[int] = frozenset()

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Watched:
        fields = zip(_NUMBERS, (*_NUMBERS[1:], 148), strict=True)
        usual = all(_NUMBER.fullmatch(buf[start:end]) for start, end in fields)
        if not usual or (any(buf[345:500]) and buf[257:263] != b"ustar\0"):
            _Watched.apart = True
        if buf[156] in _EXTENSIONS:  # of two before one member the last counts, but not to all
            _Watched.apart |= buf[156] in _Watched.extended
            _Watched.extended |= {buf[156]}
        else:
            _Watched.extended = frozenset()
        return super().frombuf(buf, encoding, errors)

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> _Watched:
        try:
            return super().fromtarfile(tarfile)
        except Exception as error:
            if type(error).__name__ not in ("EOFHeaderError", "EmptyHeaderError"):
                _Watched.apart = True
            raise


Row = tuple[str, bytes, int, int, int, int, str, bytes]


def ours(data: bytes) -> list[Row] | None:
    """The members as our reader gives them; None for an archive that it refuses."""
    stream = TarStream(pieces(data))
    rows = []
    try:
        for item in stream:
            content = b"".join(stream.content())
            rows.append(
                (
                    *(item.path.rstrip("/"), item.flag, item.mode, item.uid, item.gid),
                    *(_seconds(item.mtime), item.link if item.flag in _LINKS else "", content),
                )
            )
    except UntarError:
        return None
    return rows


def _seconds(mtime: float) -> int:
    """A time as exact as both readers know it: Python's is a float."""
    return int(float(mtime))


_LINKS: Final = (HARD_LINK, SYMLINK)
_FLAGS: Final = {
    tarfile.REGTYPE: FILE,
    tarfile.AREGTYPE: FILE,
    tarfile.CONTTYPE: FILE,
    tarfile.LNKTYPE: HARD_LINK,
    tarfile.SYMTYPE: SYMLINK,
    tarfile.DIRTYPE: DIRECTORY,
    tarfile.GNUTYPE_SPARSE: SPARSE,
    **{flag: flag for flag in OTHERS},
}


def _repeats_an_extension(data: bytes) -> bool:
    """Whether a member has two extended headers of one type: CPython 3.11.2 takes the first."""
    blocks = (data[at : at + BLOCK] for at in range(0, len(data), BLOCK))
    types = [block[156] for block in blocks if block[257:262] == b"ustar"]
    return any(one == other and one in _EXTENSIONS for one, other in pairwise(types))


def pythons(data: bytes) -> list[Row] | None:
    """The members as Python's tarfile gives them; None for an archive that it does not read whole.

    Nor where it follows other rules on purpose: global headers, and values of pax records that are
    empty.
    """
    _Watched.apart, _Watched.extended = False, frozenset()
    if _repeats_an_extension(data):
        return None
    rows: list[Row] = []
    try:
        with tarfile.open(
            fileobj=io.BytesIO(data),
            mode="r:",
            encoding="utf-8",
            errors="surrogateescape",
            tarinfo=_Watched,
        ) as archive:
            for info in archive:
                if archive.pax_headers or not all(info.pax_headers.values()):
                    return None
                is_whole = info.isreg() and info.sparse is None  # a map can make gigabytes of zeros
                content = archive.extractfile(info) if is_whole else None
                kind = SPARSE if info.sparse is not None else _FLAGS.get(info.type, info.type)
                rows.append(
                    (
                        *(info.name.rstrip("/"), kind, info.mode & 0o7777, info.uid, info.gid),
                        *(_seconds(info.mtime), info.linkname if kind in _LINKS else ""),
                        content.read() if content else b"",
                    )
                )
    except Exception:  # noqa: BLE001 - it raises what it likes; then there is nothing to compare
        return None
    return None if _Watched.apart else rows


def read_tar(data: bytes) -> None:
    """Fails where the reader is wrong about an archive."""
    found = ours(data)
    try:
        listing = read_layer(
            pieces(data), plain_layer(data), keep=lambda _: True, blobs=(kept := MemoryBlobs())
        )
    except SparklockError as error:
        told(error, exit_code=4)
    else:
        assert found is not None or data[:4] in (b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08\x00")
        for entry in listing.entries:
            assert not {"..", "."} & set(entry.path.split("/"))
            assert "\0" not in entry.path + entry.link
            assert entry.content is None or kept.has(entry.content)
    if found is not None:
        _compare(found, pythons(data))


def _compare(found: list[Row], expected: list[Row] | None) -> None:
    if expected is None:
        return
    assert len(found) == len(expected), (found, expected)
    mine: tuple[object, ...]
    theirs: tuple[object, ...]
    for mine, theirs in zip(found, expected, strict=True):
        if (
            SPARSE in (mine[1], theirs[1])
            or not theirs[0]
            or (theirs[1] in _LINKS and not theirs[6])
        ):
            continue  # an empty long name is none to Go's reader and ours
        if mine[1] == DIRECTORY and not theirs[7]:
            mine, theirs = (*mine[:1], *mine[2:]), (*theirs[:1], *theirs[2:])  # noqa: PLW2901
        assert mine == theirs, (mine, theirs)


def _pax(**records: str) -> bytes:
    info, data = file("f", b"abc")
    info.pax_headers = {key.replace("__", "."): value for key, value in records.items()}
    return tar_of((info, data), file("next"))


def seeds() -> list[bytes]:
    """Archives of every kind of entry and format."""
    some = (directory("d/"), file("d/a", b"x" * 700, mode=0o755), symlink("l", "d/a"))
    more = (hard_link("h", "d/a"), special("fifo", tarfile.FIFOTYPE), file(".wh.x"), file("b"))
    formats = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)
    long = (file("n" * 60 + "/" + "m" * 60, b"1"), symlink("s" * 70, "t" * 90))
    longer = (file("n" * 120, b"1"), symlink("s" * 120, "t" * 120))
    return [
        *(tar_of(*some, *more, format=kind)[:-8192] for kind in formats),
        *(tar_of(*long, format=kind)[:-8192] for kind in formats),
        *(tar_of(*longer, format=kind)[:-4096] for kind in formats[:2]),
        _pax(size="3", mtime="1.5", uid="7", gid="8", path="p", linkpath="q"),
        _pax(GNU__sparse__major="1", GNU__sparse__name="a", GNU__sparse__realsize="9"),
    ]


WORDS: Final = (
    *(b"ustar\x0000", b"ustar  \0", b"././@PaxHeader", b"././@LongLink", b".wh.", b".wh..wh..opq"),
    *(
        b"path=",
        b"linkpath=",
        b"size=",
        b"mtime=",
        b"uid=",
        b"GNU.sparse.",
        b"../",
        b"\x80",
        b"\xff",
    ),
    *(b"00000000000\0", b"77777777777\0", bytes(BLOCK)),
)

TAR: Final = Target(read_tar, seeds, repaired, WORDS)
