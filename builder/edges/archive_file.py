"""A tar archive on disk whose members are read where they lie, in any order."""

from __future__ import annotations

import os
import posixpath
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from builder.edges.archive_errors import (
    DamagedArchiveError,
    IncompleteArchiveError,
    MissingArchiveError,
)
from builder.edges.disk import CHUNK_BYTES, chunks_of, let_go, storage_errors
from builder.oci import untar
from builder.oci.decompress import (
    MAGIC_BYTES,
    DecompressError,
    UnknownCompressionError,
    compression_of,
    decompressed,
)
from builder.oci.image_errors import MalformedDocumentError
from builder.oci.limits import ExpansionError, expanded
from builder.oci.select import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READ: Final = "read an archive"
UNPACK: Final = "unpack an archive"
_HEADER_CHUNK_BYTES: Final = 16 * 2**10
_MAX_LINKS: Final = 8


@dataclass(frozen=True, slots=True)
class Part:
    """Where a member's content stands in the plain archive."""

    offset: int
    size_bytes: int


class PlainArchive:
    """A plain archive, its members by path; several threads may read at once."""

    def __init__(self, place: str, file: IO[bytes]) -> None:
        self.place = place
        self._file = file
        self._size_bytes = os.fstat(file.fileno()).st_size
        self._links: dict[str, str] = {}
        self._parts: dict[str, Part] = {}
        try:
            self._list()
        except untar.UntarError as error:
            raise DamagedArchiveError(place, entry=error.entry, reason=error.reason) from error

    @property
    def names(self) -> list[str]:
        """The paths of all members that have content, sorted."""
        return sorted(name for name in {*self._parts, *self._links} if self.find(name))

    def find(self, name: str) -> Part | None:
        """The content behind a path, links followed; None if there is none."""
        for _ in range(_MAX_LINKS):
            if name in self._parts:
                return self._parts[name]
            if name not in self._links:
                return None
            name = self._links[name]
        return None

    def require(self, name: str) -> Part:
        """As `find`; IncompleteArchiveError if there is none."""
        part = self.find(name)
        if part is None:
            missing = f"a member {name}"
            raise self.incomplete(missing)
        return part

    def incomplete(self, missing: str) -> IncompleteArchiveError:
        """The error of an archive that is not what it should be."""
        return IncompleteArchiveError(self.place, missing=missing, members=tuple(self.names[:5]))

    def small(self, part: Part, place: str, wanted: str) -> bytes:
        """All bytes of a document; MalformedDocumentError if they are too many."""
        if part.size_bytes > MAX_DOCUMENT_BYTES:
            problem = f"{part.size_bytes} bytes, and {MAX_DOCUMENT_BYTES} are the most"
            raise MalformedDocumentError(place, wanted=wanted, problems=(problem,))
        return b"".join(self.chunks(part))

    def chunks(self, part: Part) -> Iterator[bytes]:
        """The bytes of a member in chunks of at most 1 MiB."""
        position, end = part.offset, part.offset + part.size_bytes
        while position < end:
            chunk = self._read(position, min(CHUNK_BYTES, end - position))
            if not chunk:
                return  # cut since it was listed; whoever counts will say so
            position += len(chunk)
            yield chunk

    def _list(self) -> None:
        position = 0

        def headers() -> Iterator[bytes]:
            nonlocal position
            while chunk := self._read(position, _HEADER_CHUNK_BYTES):
                position += len(chunk)
                yield chunk

        def skip(size_bytes: int) -> bool:
            nonlocal position
            position += size_bytes
            return position <= self._size_bytes

        stream = untar.TarStream(headers(), skip=skip)
        for member in stream:
            path = posixpath.normpath(member.path)
            self._parts.pop(path, None)  # of duplicates the last one counts
            self._links.pop(path, None)
            if member.flag == untar.FILE:
                self._parts[path] = Part(stream.offset, member.size_bytes)
            elif member.flag == untar.HARD_LINK:
                self._links[path] = posixpath.normpath(member.link)
            elif member.flag == untar.SYMLINK:
                folder = posixpath.dirname(path)
                self._links[path] = posixpath.normpath(posixpath.join(folder, member.link))

    def _read(self, position: int, size_bytes: int) -> bytes:
        with storage_errors(self.place, READ):
            return os.pread(self._file.fileno(), size_bytes, position)


def plain_file(path: Path, spool: Path, place: str) -> IO[bytes]:
    """The archive opened, or a plain copy of a compressed one in a file below `spool`.

    Raises MissingArchiveError, DamagedArchiveError, or StorageError.
    """
    with ExitStack() as stack:
        with storage_errors(place, READ):
            if path.exists() and not path.is_file():  # opening a pipe, or reading a device, hangs
                found = "a folder" if path.is_dir() else "a device, pipe or socket"
                raise MissingArchiveError(place, found=found)
            try:
                file = stack.enter_context(path.open("rb"))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise MissingArchiveError(place, found="no such file") from error
            start = os.pread(file.fileno(), MAGIC_BYTES, 0)
        if not compression_of(start):
            stack.pop_all()
            return file
        return _unpacked(file, spool, place)


def _unpacked(file: IO[bytes], spool: Path, place: str) -> IO[bytes]:
    with ExitStack() as stack:
        with storage_errors(str(spool), UNPACK):
            spool.mkdir(parents=True, exist_ok=True)
            plain = tempfile.TemporaryFile(dir=spool)  # noqa: SIM115 - closed by let_go, or who asked
            stack.callback(let_go, plain)
        for chunk in _decompressed(file, place):
            with storage_errors(str(spool), UNPACK):
                plain.write(chunk)
        with storage_errors(str(spool), UNPACK):
            plain.flush()
        stack.pop_all()
        return plain


def _decompressed(file: IO[bytes], place: str) -> Iterator[bytes]:
    try:
        with storage_errors(place, READ):
            stored_bytes = os.fstat(file.fileno()).st_size
            yield from expanded(decompressed(chunks_of(file)), stored_bytes=stored_bytes)
    except DecompressError as error:
        raise DamagedArchiveError(place, entry="", reason=error.reason) from error
    except ExpansionError as error:
        reason = f"it unpacks to more than the {error.limit_bytes} bytes that it may"
        raise DamagedArchiveError(place, entry="", reason=reason) from error
    except UnknownCompressionError as error:
        reason = f"compressed with {error.name}"
        raise DamagedArchiveError(place, entry="", reason=reason) from error
