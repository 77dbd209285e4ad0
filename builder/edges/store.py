"""The store of blobs on disk, named by their digest."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final

from builder.digest import Digest, Hasher, digest_bytes, hex_of
from builder.edges.disk import abandoned, chunks_of, publish, storage_errors, temporary
from builder.edges.sharing import Use, use
from builder.oci.errors import DamagedBlobError, DigestMismatchError, MissingBlobError
from builder.oci.limits import MAX_READ_BYTES, BlobTooLargeError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from builder.oci.model import Descriptor


OWN_FOLDER: Final = ".sparklock"
"""All that sparklock keeps beside a manifest, in a folder that anyone may delete."""

_NAME: Final = re.compile(r"[0-9a-f]{64}\Z")


class BlobStore:
    """Blobs at `ROOT/sha256/ab/abcd…`; a builder.sources.Blobs.

    A blob appears under its name only when all its bytes are written, hashed and on disk, so that
    a killed process leaves at most a file in `ROOT/tmp`, and two processes may write at once.
    While this object lives and was used, no other process removes blobs.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._use: Use | None = None

    @property
    def root(self) -> Path:
        """The store's folder."""
        return self._root

    def path(self, digest: Digest) -> Path:
        """Where the blob stands, or would stand."""
        if self._use is None:
            self._use = use(self._root)
        name = hex_of(digest)
        return self._root / "sha256" / name[:2] / name

    def has(self, digest: Digest) -> bool:
        """Whether the blob is here."""
        return self.path(digest).is_file()

    def is_sound(self, digest: Digest) -> bool:
        """Whether the blob is here with the bytes it is named by; reads it whole."""
        try:
            for _ in self.chunks(digest):
                pass
        except (MissingBlobError, DamagedBlobError):
            return False
        return True

    def read(self, digest: Digest) -> bytes:
        """All bytes of a small blob, checked.

        Raises MissingBlobError, DamagedBlobError, or BlobTooLargeError above MAX_READ_BYTES.
        """
        with self._opened(digest) as file:
            data = file.read(MAX_READ_BYTES + 1)
        if len(data) > MAX_READ_BYTES:
            raise BlobTooLargeError(str(self._root), digest, limit_bytes=MAX_READ_BYTES)
        if digest_bytes(data) != digest:
            raise self._damaged(digest, digest_bytes(data))
        return data

    def chunks(self, digest: Digest) -> Iterator[bytes]:
        """The bytes in chunks of at most 1 MiB; after the last, checked as in `read`."""
        hasher = Hasher()
        with self._opened(digest) as file:
            yield from hasher.tee(chunks_of(file))
        if hasher.digest() != digest:
            raise self._damaged(digest, hasher.digest())

    @contextmanager
    def open_blob(self, descriptor: Descriptor) -> Iterator[Iterator[bytes]]:
        """As ImageSource.open_blob, so that a store can stand where a source does."""
        yield self.chunks(descriptor.digest)

    def put(self, chunks: Iterable[bytes], *, expected: Digest | None = None) -> Digest:
        """Store bytes and return their digest; DigestMismatchError keeps nothing.

        A damaged blob that is here already is replaced.
        An error of the chunks' own passes through and keeps nothing either.
        """
        with self._temporary() as file:
            hasher = Hasher()
            for chunk in hasher.tee(chunks):
                self._write(file, chunk)
            digest = hasher.digest()
            if expected is not None and expected != digest:
                raise DigestMismatchError(str(self._root), expected=expected, found=digest)
            self._keep(file, digest)
        return digest

    def keeping(self, chunks: Iterable[bytes], digest: Digest) -> Generator[bytes]:
        """The same chunks, kept on their way: after the last, if they have the digest.

        Of bytes that have another, and of those that nobody reads to the end, nothing stays.
        """
        with self._temporary() as file:
            hasher = Hasher()
            for chunk in hasher.tee(chunks):
                self._write(file, chunk)
                yield chunk
            if hasher.digest() == digest:
                self._keep(file, digest)

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process removes blobs meanwhile, whatever becomes of the objects that use it."""
        with self._storage_errors("make the store"):
            self._make()
        held = use(self._root)
        yield
        del held

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process uses the store meanwhile; StoreBusyError if one does."""
        held = use(self._root, wait=False)
        if held is None:
            yield
            return
        with held.alone(str(self._root)):
            yield

    def listed(self) -> Iterator[tuple[Digest, int]]:
        """Every blob that is here, and its size in bytes, sorted; none is read."""
        with self._storage_errors("list the blobs"):
            for path in sorted(self._root.glob("sha256/??/*")):
                if _NAME.match(path.name) and path.parent.name == path.name[:2]:
                    yield Digest(f"sha256:{path.name}"), path.lstat().st_size

    def remove(self, digest: Digest) -> None:
        """Remove a blob. Only for who is `alone`: others may be about to read it."""
        with self._storage_errors("remove a blob"):
            path = self.path(digest)
            path.unlink(missing_ok=True)
            with suppress(OSError):  # others are in the folder
                path.parent.rmdir()

    def unfinished(self) -> Iterator[Path]:
        """What killed processes left of blobs that they were writing."""
        folder = self._root / "tmp"
        if folder.is_dir():
            with self._storage_errors("list unfinished blobs"):
                yield from abandoned(folder)

    def _make(self) -> None:
        """The store's folder is there; git leaves sparklock's own alone, wherever that was made."""
        if self._root.is_dir():
            return
        self._root.mkdir(parents=True, exist_ok=True)
        ignore = self._root.parent / ".gitignore"
        if ignore.parent.name == OWN_FOLDER and not ignore.exists():
            ignore.write_text("*\n")

    @contextmanager
    def _temporary(self) -> Iterator[IO[bytes]]:
        with ExitStack() as stack:
            with self._storage_errors("make a temporary file"):
                self._make()
                folder = self._root / "tmp"
                folder.mkdir(exist_ok=True)
                file = stack.enter_context(temporary(folder))
            yield file

    def _write(self, file: IO[bytes], chunk: bytes) -> None:
        with self._storage_errors("write a blob"):
            file.write(chunk)

    def _keep(self, file: IO[bytes], digest: Digest) -> None:
        if not self.is_sound(digest):
            with self._storage_errors("keep a blob"):
                path = self.path(digest)
                path.parent.mkdir(parents=True, exist_ok=True)
                publish(file, path, mode=0o444)

    @contextmanager
    def _opened(self, digest: Digest) -> Iterator[IO[bytes]]:
        with self._storage_errors("read a blob"):
            try:
                file = self.path(digest).open("rb")
            except FileNotFoundError as error:
                raise MissingBlobError(str(self._root), digest) from error
            with file:
                yield file

    def _storage_errors(self, action: str) -> AbstractContextManager[None]:
        return storage_errors(str(self._root), action)

    def _damaged(self, digest: Digest, found: Digest) -> DamagedBlobError:
        return DamagedBlobError(str(self.path(digest)), expected=digest, found=found)
