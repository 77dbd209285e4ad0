"""Files read in chunks, and written so that each has all its bytes or is not there.

A file that is being written is locked by its writer (flock), and the kernel drops the lock when the
writer dies: so what a killed process left is told from what another one is writing now.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from builder.oci.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK_BYTES: Final = 2**20
UNFINISHED: Final = ".writing-"
"""How the name of a file begins, or goes on, that is being written beside others."""


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    """What is left of a file, in chunks of at most 1 MiB."""
    return iter(lambda: file.read(CHUNK_BYTES), b"")


@contextmanager
def temporary(folder: Path, *, prefix: str = "") -> Iterator[IO[bytes]]:
    """A new file in a folder that is gone afterwards, unless it was published."""
    file = _claimed(folder, prefix)
    try:
        yield file
    finally:
        Path(file.name).unlink(missing_ok=True)  # before its lock goes with it
        let_go(file)


def let_go(file: IO[bytes]) -> None:
    """Close a file; bytes that could not be written were told of already."""
    with suppress(OSError):
        file.close()


def _claimed(folder: Path, prefix: str) -> IO[bytes]:
    """A new file with its lock; another one, if `abandoned` was quicker than the lock."""
    while True:
        file = tempfile.NamedTemporaryFile(dir=folder, prefix=prefix, delete=False)  # noqa: SIM115 - closed by who asked
        with suppress(OSError):  # without locks here, nobody takes this for abandoned
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


def abandoned(folder: Path, *, prefix: str = "") -> Iterator[Path]:
    """The files in a folder that `temporary` made and whose writers have died, sorted."""
    for path in sorted(path for path in folder.iterdir() if path.name.startswith(prefix)):
        with suppress(OSError), path.open("rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path


def write_whole(path: Path, chunks: Iterable[bytes], *, mode: int = 0o644) -> None:
    """Write a file all of it or nothing; the mode of one that is replaced, and links to it, stay.

    What earlier writers of this file left when they were killed goes first. Raises OSError.
    """
    path = Path(os.path.realpath(path))  # a rename onto a link would put a file in its place
    prefix = f".{path.name}{UNFINISHED}"
    for left in abandoned(path.parent, prefix=prefix):
        left.unlink(missing_ok=True)
    with temporary(path.parent, prefix=prefix) as file:
        for chunk in chunks:
            file.write(chunk)
        publish(file, path, mode=path.stat().st_mode & 0o777 if path.exists() else mode)


def publish(file: IO[bytes], path: Path, *, mode: int) -> None:
    """Give a temporary file its name, in the place of what has it, once its bytes are on disk."""
    file.flush()
    os.fchmod(file.fileno(), mode)
    os.fsync(file.fileno())
    Path(file.name).replace(path)


@contextmanager
def storage_errors(place: str, action: str) -> Iterator[None]:
    """Turns what the system refuses into StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(place, action=action, reason=str(error)) from error
