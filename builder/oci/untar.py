"""Archives of others, read: headers and contents of a tar stream, in one pass.

Stricter than Python's tarfile, which takes a damaged header for the end of the archive, and without
its list of members. Reads ustar, pax, GNU and v7 archives. What engines ignore is ignored here:
global pax headers, extended attributes, sizes of entries that have no content.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

BLOCK: Final = 512
CHUNK_BYTES: Final = 2**20

FILE: Final = b"0"
HARD_LINK: Final = b"1"
SYMLINK: Final = b"2"
DIRECTORY: Final = b"5"
SPARSE: Final = b"S"
OTHERS: Final = (b"3", b"4", b"6")
"""Character device, block device, fifo."""

_FILES = (b"0", b"\0", b"7")
_PAX, _PAX_GLOBAL, _GNU_NAME, _GNU_LINK = b"x", b"g", b"L", b"K"
_GNU_KEYS = {_GNU_NAME: "path", _GNU_LINK: "linkpath"}
_PAX_NAMES = (b"path", b"linkpath", b"GNU.sparse.name")
_MAX_EXTENSION_BYTES = 2**20
_ZEROS = bytes(BLOCK)
_OCTAL = re.compile(rb"[ \0]*([0-7]*)(?:[ \0]|\Z)")
_PAX_NUMBER = re.compile(rb"(-?[0-9]{1,19})\Z")
_PAX_TIME = re.compile(rb"(-?[0-9]{1,19})(?:\.[0-9]*)?\Z")


class UntarError(ValueError):
    """The archive is damaged; `entry` is the last path read before, `reason` says how."""

    def __init__(self, entry: str, reason: str) -> None:
        super().__init__(entry, reason)
        self.entry = entry
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Member:
    """One entry as the archive has it: `path` and `link` untouched, `flag` one of this module's.

    `size_bytes` is the size of the content that follows. Of a file stored as sparse the content is
    not the file's bytes; its flag is SPARSE.
    """

    path: str
    flag: bytes
    mode: int
    uid: int
    gid: int
    mtime: int
    size_bytes: int
    link: str


class TarStream:
    """The members of a tar stream; the content of each can be read until the next is asked for.

    With `skip`, content that nobody reads is not asked of the chunks: the function leaves out so
    many bytes of what they come from, and says whether there were as many.
    """

    def __init__(
        self, chunks: Iterable[bytes], *, skip: Callable[[int], bool] | None = None
    ) -> None:
        self._source = iter(chunks)
        self._skip = skip
        self._chunk = b""
        self._chunk_offset = 0
        self._position = 0
        self._left = 0
        self._padding = 0
        self._path = ""

    def __iter__(self) -> Iterator[Member]:
        """Every member; afterwards the stream is at its end, whatever follows the archive read."""
        while (member := self._next_member()) is not None:
            yield member
        while self._fill():
            self._position = len(self._chunk)

    @property
    def offset(self) -> int:
        """Where in the stream the next byte stands: when a member has come, its content's first."""
        return self._chunk_offset + self._position

    def content(self) -> Iterator[bytes]:
        """What is left of the current member's content, in chunks of at most 1 MiB."""
        while self._left:
            chunk = self._some(min(self._left, CHUNK_BYTES))
            self._left -= len(chunk)
            yield chunk

    def start(self, size_bytes: int) -> bytes:
        """The next bytes of the current member's content: so many, or what is left of it."""
        data = self._exactly(min(self._left, size_bytes))
        self._left -= len(data)
        return data

    def _next_member(self) -> Member | None:
        names: dict[str, bytes] = {}
        records: dict[str, bytes] = {}
        while True:
            self._skip_rest()
            block = self._header()
            if block is None:
                if names or records:
                    self._damaged("the archive ends after an extended header")
                return None
            size_bytes = self._number(block[124:136])
            flag = block[156:157]
            if flag in (_PAX, _PAX_GLOBAL, _GNU_NAME, _GNU_LINK):
                body = self._extension(size_bytes)
                if flag == _PAX:
                    records.clear()
                    records.update(self._pax_records(body))
                elif flag in _GNU_KEYS and (name := _until_nul(body)):
                    names[_GNU_KEYS[flag]] = name
                continue
            # GNU's headers before pax's, of each the last
            member = self._member(block, records | names)
            self._path = member.path
            self._left = member.size_bytes
            self._padding = -member.size_bytes % BLOCK
            return member

    def _header(self) -> bytes | None:
        """The next header block; None at the end, with or without its zero blocks."""
        block = self._exactly(BLOCK, end_allowed=True)
        if block == _ZEROS:
            block = self._exactly(BLOCK, end_allowed=True)
            if block not in (b"", _ZEROS):
                self._damaged("a zero block is followed by data")
            return None
        if not block:
            return None
        if self._number(block[148:156]) not in _checksums(block):
            self._damaged("a header's checksum is wrong")
        return block

    def _extension(self, size_bytes: int) -> bytes:
        if not 0 <= size_bytes <= _MAX_EXTENSION_BYTES:
            self._damaged(f"an extended header of {size_bytes} bytes")
        body = self._exactly(size_bytes)
        self._padding = -size_bytes % BLOCK
        return body

    def _pax_records(self, body: bytes) -> Iterator[tuple[str, bytes]]:
        while body:
            digits, space, _ = body.partition(b" ")
            length = int(digits) if digits.isdigit() and len(digits) < 10 else 0  # noqa: PLR2004
            record = body[len(digits) + len(space) : length]
            key, equals, value = record.partition(b"=")
            if length > len(body) or not equals or not key or not value.endswith(b"\n"):
                self._damaged("a pax record is malformed")
            if key in _PAX_NAMES and b"\0" in value:
                self._damaged("a name with a NUL")
            yield key.decode(errors="surrogateescape"), value[:-1]
            body = body[length:]

    def _member(self, block: bytes, extensions: Mapping[str, bytes]) -> Member:
        path = self._name(block, extensions)
        flag = self._flag(block[156:157], path, extensions)
        size_bytes = self._extended(extensions, "size", block[124:136])
        if flag not in (FILE, SPARSE):
            size_bytes = 0
        if size_bytes < 0:
            self._damaged("a negative size")
        if block[156:157] == SPARSE:
            self._skip_sparse_map(block)
        return Member(
            path=path,
            flag=flag,
            mode=self._number(block[100:108]) & 0o7777,
            uid=self._extended(extensions, "uid", block[108:116]),
            gid=self._extended(extensions, "gid", block[116:124]),
            mtime=self._extended(extensions, "mtime", block[136:148]),
            size_bytes=size_bytes,
            link=_text(extensions.get("linkpath") or _until_nul(block[157:257])),
        )

    def _name(self, block: bytes, extensions: Mapping[str, bytes]) -> str:
        for key in ("GNU.sparse.name", "path"):
            if extensions.get(key):
                return _text(extensions[key])
        name = _until_nul(block[:100])
        prefix = _until_nul(block[345:500]) if block[257:263] == b"ustar\0" else b""
        return _text(prefix + b"/" + name if prefix else name)

    def _flag(self, flag: bytes, path: str, extensions: Mapping[str, bytes]) -> bytes:
        if flag in _FILES:
            if flag == b"\0" and path.endswith("/"):
                return DIRECTORY  # as v7 wrote them
            return SPARSE if any(key.startswith("GNU.sparse.") for key in extensions) else FILE
        if flag not in (HARD_LINK, SYMLINK, DIRECTORY, SPARSE, *OTHERS):
            self._path = path
            self._damaged(f"an entry of unknown type {flag!r}")
        return flag

    def _skip_sparse_map(self, block: bytes) -> None:
        more = block[482]
        while more:
            more = self._exactly(BLOCK)[504]

    def _extended(self, extensions: Mapping[str, bytes], key: str, field: bytes) -> int:
        if not extensions.get(key):  # an empty value takes back one of a global header
            return self._number(field)
        match = (_PAX_TIME if key == "mtime" else _PAX_NUMBER).match(extensions[key])
        if match is None:
            self._damaged(f"a pax {key} that is no number")
        return int(match[1])

    def _number(self, field: bytes) -> int:
        """An octal field, or GNU's base-256 field, whose first byte is 0x80 or 0xff."""
        if field[:1] == b"\x80":
            return int.from_bytes(field[1:], "big")
        if field[:1] == b"\xff":
            return int.from_bytes(field[1:], "big") - int(256 ** (len(field) - 1))
        match = _OCTAL.match(field)
        if match is None:
            self._damaged(f"a header field that is no number: {field!r}")
        return int(match[1] or b"0", 8)

    def _damaged(self, reason: str) -> NoReturn:
        raise UntarError(self._path, reason)

    def _skip_rest(self) -> None:
        left = self._left + self._padding
        self._left = self._padding = 0
        if self._skip is not None and left > len(self._chunk) - self._position:
            beyond = left - (len(self._chunk) - self._position)
            self._chunk_offset += len(self._chunk) + beyond
            self._chunk, self._position, left = b"", 0, 0
            if not self._skip(beyond):
                self._damaged("the archive ends too early")
        while left:
            if not self._fill():
                self._damaged("the archive ends too early")
            step = min(left, len(self._chunk) - self._position)
            self._position += step
            left -= step

    def _fill(self) -> bool:
        """Whether there are bytes to read, once the next chunk is here."""
        while self._position == len(self._chunk):
            chunk = next(self._source, None)
            if chunk is None:
                return False
            self._chunk_offset += len(self._chunk)
            self._chunk, self._position = chunk, 0
        return True

    def _some(self, limit: int) -> bytes:
        if not self._fill():
            self._damaged("the archive ends too early")
        piece = self._chunk[self._position : self._position + limit]
        self._position += len(piece)
        return piece

    def _exactly(self, size_bytes: int, *, end_allowed: bool = False) -> bytes:
        if end_allowed and not self._fill():
            return b""
        data = b""
        while len(data) < size_bytes:
            data += self._some(size_bytes - len(data))
        return data


def _checksums(block: bytes) -> Iterator[int]:
    """The sums that a header may state: of its bytes and, as some old writers did, signed ones."""
    unsigned = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    yield unsigned
    high = sum(byte > 127 for byte in block[:148] + block[156:])  # noqa: PLR2004 - sign bit
    yield unsigned - 256 * high


def _until_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(name: bytes) -> str:
    return name.decode(errors="surrogateescape")
