"""The layers we write: one tar format of our own, versioned, the same bytes on every machine.

Python's tarfile has changed its bytes between versions, and gzip its bytes between libraries; so
layers of ours are plain tar from this writer, and their digest is their diff_id. A change of even
one byte here is a new LAYER_FORMAT (formats.py). Source: POSIX.1-2017, pax interchange format.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from builder.oci.image_errors import (
    ContentSizeError,
    DuplicateEntryError,
    MissingParentError,
    UnwritableEntryError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    SortKey: TypeAlias = tuple[tuple[int, bytes], ...]

BLOCK: Final = 512
WHITEOUT_PREFIX: Final = ".wh."
OPAQUE_NAME: Final = ".wh..wh..opq"

_MAX_ID = 0o7777777
_MAX_MODE = 0o7777
_MAX_OCTAL = 0o77777777777
_NAME_BYTES = 100
_PREFIX_BYTES = 155
_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 4095
_PAX_NAME = b"././@PaxHeader"


class TarKind(Enum):
    """What an entry of a layer of ours is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    WHITEOUT = "whiteout"
    """Hides the path in the layers below; written as the empty file `.wh.NAME`."""


_TYPE_FLAGS = {
    TarKind.FILE: b"0",
    TarKind.DIRECTORY: b"5",
    TarKind.SYMLINK: b"2",
    TarKind.WHITEOUT: b"0",
}


class EntryOrderError(ValueError):
    """Entries did not go through `ordered`: a bug of the caller."""


@dataclass(frozen=True, slots=True)
class LazyContent:
    """Bytes that are opened only while the entry is written; `open` may be called many times."""

    size_bytes: int
    open: Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One entry of a layer of ours.

    `path` is as in builder/oci/tree.py; of a whiteout it is the path that is hidden. `mode` holds
    permission bits only, `mtime` is Unix time in seconds, `link` is a symlink's target text.
    """

    path: str
    kind: TarKind
    mode: int
    mtime: int
    uid: int = 0
    gid: int = 0
    link: str = ""
    content: bytes | LazyContent = b""

    @property
    def size_bytes(self) -> int:
        """The size of the content."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.size_bytes


def file_entry(path: str, content: bytes | LazyContent, *, mode: int, mtime: int) -> TarEntry:
    """A regular file that belongs to root."""
    return TarEntry(path, TarKind.FILE, mode, mtime, content=content)


def whiteout_entry(path: str, *, mtime: int) -> TarEntry:
    """The entry that hides `path` in the layers below."""
    return TarEntry(path, TarKind.WHITEOUT, 0o644, mtime)


def ordered(entries: Iterable[TarEntry]) -> tuple[TarEntry, ...]:
    """The entries in the one order that write_tar accepts.

    Depth first and bytewise by path part: parents before children, a directory's whiteouts directly
    after it. Raises DuplicateEntryError, also when a path is both hidden and written: what is
    written replaces what lies below anyway.
    """
    by_path: dict[str, TarEntry] = {}
    for entry in entries:
        if entry.path in by_path:
            raise DuplicateEntryError(entry.path)
        by_path[entry.path] = entry
    return tuple(sorted(by_path.values(), key=_sort_key))


def write_tar(entries: Iterable[TarEntry]) -> Iterator[bytes]:
    """The tar archive of the entries in chunks; memory does not grow with their contents.

    Plain ustar; pax records only for a path, link or size that does not fit. Two zero blocks at the
    end, no record padding. Raises EntryOrderError, MissingParentError, UnwritableEntryError or
    ContentSizeError.
    """
    for entry in _in_order(entries):
        yield _headers(entry)
        yield from _content(entry)
        yield bytes(-entry.size_bytes % BLOCK)
    yield bytes(2 * BLOCK)


def tar_size(entries: Iterable[TarEntry]) -> int:
    """How many bytes write_tar makes of the entries; no content is opened."""
    blocks = (
        len(_headers(entry)) + entry.size_bytes + -entry.size_bytes % BLOCK for entry in entries
    )
    return sum(blocks) + 2 * BLOCK


def _sort_key(entry: TarEntry) -> SortKey:
    *parents, name = entry.path.encode(errors="surrogateescape").split(b"/")
    rank = 0 if entry.kind is TarKind.WHITEOUT else 1
    return (*((1, part) for part in parents), (rank, name))


def _in_order(entries: Iterable[TarEntry]) -> Iterator[TarEntry]:
    """The same entries, once each is known to follow the last and to have its directory.

    An engine makes a directory that a layer leaves out with attributes of its own choice, and in
    the place of a symlink; so leaving one out is an error (image-spec#737, #1221).
    """
    above: list[str] = []
    last: SortKey = ()
    for entry in entries:
        _refuse_bad_path(entry)
        key = _sort_key(entry)
        if key == last:
            raise DuplicateEntryError(entry.path)
        if key < last:
            raise EntryOrderError(entry.path)
        parent = entry.path.rpartition("/")[0]
        while above and above[-1] != parent:
            above.pop()
        if parent and not above:
            raise MissingParentError(entry.path)
        if entry.kind is TarKind.DIRECTORY:
            above.append(entry.path)
        last = key
        yield entry


def _refuse_bad_path(entry: TarEntry) -> None:
    parts = entry.path.split("/")
    if "\0" in entry.path or {"", ".", ".."} & set(parts):
        raise UnwritableEntryError(entry.path, "not a plain path relative to the root")
    if any(part.startswith(WHITEOUT_PREFIX) for part in parts):
        raise UnwritableEntryError(entry.path, f"{WHITEOUT_PREFIX} marks whiteouts")
    longest = max(parts, key=_size_bytes)
    for part, limit in ((longest, _MAX_NAME_BYTES), (entry.path, _MAX_PATH_BYTES)):
        if _size_bytes(part) > limit:
            problem = f"{_size_bytes(part)} bytes, and Linux takes {limit} at most"
            raise UnwritableEntryError(entry.path, problem)


def _size_bytes(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))


def _content(entry: TarEntry) -> Iterator[bytes]:
    if isinstance(entry.content, bytes):
        yield entry.content
        return
    size_bytes = 0
    for chunk in entry.content.open():
        size_bytes += len(chunk)
        if size_bytes > entry.content.size_bytes:
            break
        yield chunk
    if size_bytes != entry.content.size_bytes:
        found = "more" if size_bytes > entry.content.size_bytes else str(size_bytes)
        raise ContentSizeError(entry.path, f"{found} bytes, not {entry.content.size_bytes}")


def _headers(entry: TarEntry) -> bytes:
    """The ustar header of an entry, after a pax header for what does not fit into it."""
    _refuse_misfits(entry)
    name, link = _stored_name(entry), entry.link.encode(errors="surrogateescape")
    prefix, short = _split(name)
    records: dict[str, bytes] = {}
    if len(short) > _NAME_BYTES:
        records["path"] = name
    if len(link) > _NAME_BYTES:
        records["linkpath"] = link
    if entry.size_bytes > _MAX_OCTAL:
        records["size"] = b"%d" % entry.size_bytes
    fields = _Fields(
        name=short[:_NAME_BYTES],
        prefix=prefix,
        link=link[:_NAME_BYTES],
        flag=_TYPE_FLAGS[entry.kind],
        mode=entry.mode,
        uid=entry.uid,
        gid=entry.gid,
        mtime=entry.mtime,
        size_bytes=0 if "size" in records else entry.size_bytes,
    )
    return _pax_header(entry, records) + fields.block()


def _refuse_misfits(entry: TarEntry) -> None:
    for name, value, limit in (
        ("mode", entry.mode, _MAX_MODE),
        ("uid", entry.uid, _MAX_ID),
        ("gid", entry.gid, _MAX_ID),
        ("mtime", entry.mtime, _MAX_OCTAL),
    ):
        if not 0 <= value <= limit:
            raise UnwritableEntryError(entry.path, f"{name} {value} is not within 0 and {limit}")
    if (entry.kind is TarKind.SYMLINK) != bool(entry.link) or "\0" in entry.link:
        raise UnwritableEntryError(entry.path, f"{entry.kind.value} with link {entry.link!r}")
    if entry.kind is not TarKind.FILE and entry.size_bytes:
        raise UnwritableEntryError(entry.path, f"{entry.kind.value} with content")


def _stored_name(entry: TarEntry) -> bytes:
    path = entry.path
    if entry.kind is TarKind.DIRECTORY:
        path += "/"
    elif entry.kind is TarKind.WHITEOUT:
        directory, slash, name = path.rpartition("/")
        path = f"{directory}{slash}{WHITEOUT_PREFIX}{name}"
    return path.encode(errors="surrogateescape")


def _split(name: bytes) -> tuple[bytes, bytes]:
    """Prefix and name fields: the longest prefix that fits; no prefix where none helps."""
    if len(name) <= _NAME_BYTES:
        return b"", name
    cut = name.rfind(b"/", 0, min(_PREFIX_BYTES + 1, len(name) - 1))
    if cut <= 0 or len(name) - cut - 1 > _NAME_BYTES:
        return b"", name
    return name[:cut], name[cut + 1 :]


def _pax_header(entry: TarEntry, records: dict[str, bytes]) -> bytes:
    if not records:
        return b""
    body = b"".join(_pax_record(entry, key, records[key]) for key in sorted(records))
    header = _Fields(name=_PAX_NAME, flag=b"x", size_bytes=len(body)).block()
    return header + body + bytes(-len(body) % BLOCK)


def _pax_record(entry: TarEntry, key: str, value: bytes) -> bytes:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise UnwritableEntryError(entry.path, f"a {key} this long must be UTF-8") from error
    rest = b" %s=%s\n" % (key.encode(), value)
    length = len(rest)
    while length != len(rest) + len(str(length)):  # the record's length counts its own digits
        length = len(rest) + len(str(length))
    return b"%d%s" % (length, rest)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of one ustar header that are not the same in all of ours."""

    name: bytes
    flag: bytes
    size_bytes: int
    prefix: bytes = b""
    link: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = 0

    def block(self) -> bytes:
        """The 512 bytes, with the checksum."""
        head = self.name.ljust(_NAME_BYTES, b"\0") + b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (
            self.mode,
            self.uid,
            self.gid,
            self.size_bytes,
            self.mtime,
        )
        tail = (
            self.flag
            + self.link.ljust(_NAME_BYTES, b"\0")
            + b"ustar\x0000"
            + bytes(32 + 32 + 8 + 8)  # no user or group name; device fields are NUL, not zeros
            + self.prefix.ljust(_PREFIX_BYTES, b"\0")
            + bytes(12)
        )
        checksum = sum(head) + sum(tail) + 8 * ord(" ")  # counted as if its own field were spaces
        return head + b"%06o\0 " % checksum + tail
