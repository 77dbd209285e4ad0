"""SHA-256 of large files, noted so that a file that has not changed is not read again.

A note holds while size, modification time, inode and change time are the same: nobody can set the
last. What changed within the last seconds is not noted, for a later change could have its marks.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Final

from builder.digest import Digest, Hasher, NotADigestError, parse_digest
from builder.edges.disk import chunks_of, write_whole

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

NOTES: Final = ".sparklock/hashes.json"
"""Beside the manifest. It can be deleted at any time."""

LARGE_BYTES: Final = 2**20
"""Smaller files are read as quickly as notes of them."""

RESTED_S: Final = 2.0
"""How long a file must have been left alone: more than any file system's step of its times."""

_MOST_BYTES: Final = 16 * 2**20


def of(stream: IO[bytes]) -> tuple[int, Digest]:
    """Size and digest of what is left of a file."""
    hasher = Hasher()
    for chunk in chunks_of(stream):
        hasher.update(chunk)
    return hasher.size_bytes, hasher.digest()


class Hashes:
    """The notes of a manifest's folder; a context manager that writes them at the end.

    Where they cannot be read or written, files are read every time.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NOTES
        self._noted: dict[str, tuple[list[int], Digest]] | None = None
        self._used: dict[str, tuple[list[int], Digest]] = {}
        self._news = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._news:
            with suppress(OSError):
                self._path.parent.mkdir(exist_ok=True)
                write_whole(self._path, [json.dumps(self._used, sort_keys=True).encode()])

    def of(self, name: str, stream: IO[bytes]) -> tuple[int, Digest]:
        """Size and digest of an open file that was not read yet; OSError."""
        marks = _marks(stream)
        if marks[0] < LARGE_BYTES:
            return of(stream)
        if self._noted is None:
            self._noted = self._read()
        noted = self._noted.get(name)
        if noted is not None and noted[0] == marks:
            self._used[name] = noted
            return marks[0], noted[1]
        rested = time.time() - RESTED_S > max(marks[1], marks[3]) / 1e9
        size_bytes, digest = of(stream)
        if rested and _marks(stream) == marks:
            self._used[name] = (marks, digest)
            self._news = True
        return size_bytes, digest

    def _read(self) -> dict[str, tuple[list[int], Digest]]:
        try:
            with self._path.open("rb") as file:
                found: Any = json.loads(file.read(_MOST_BYTES))
            return {str(k): (list(v[0]), parse_digest(str(v[1]))) for k, v in found.items()}
        except (OSError, ValueError, LookupError, AttributeError, TypeError, NotADigestError):
            return {}


def _marks(stream: IO[bytes]) -> list[int]:
    """What tells a file from another and from itself after a change; its size first."""
    stat = os.fstat(stream.fileno())
    return [stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns, stat.st_dev]
