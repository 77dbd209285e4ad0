"""Files read in chunks, and written so that each has all its bytes or is not there."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from builder.oci.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_BYTES: Final = 2**20


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    """What is left of a file, in chunks of at most 1 MiB."""
    return iter(lambda: file.read(CHUNK_BYTES), b"")


@contextmanager
def temporary(folder: Path, *, prefix: str = "") -> Iterator[IO[bytes]]:
    """A new file in a folder that is gone afterwards, unless it was published."""
    file = tempfile.NamedTemporaryFile(dir=folder, prefix=prefix, delete=False)  # noqa: SIM115 - closed below
    try:
        yield file
    finally:
        with suppress(OSError):  # bytes that could not be written were told of already
            file.close()
        Path(file.name).unlink(missing_ok=True)


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
