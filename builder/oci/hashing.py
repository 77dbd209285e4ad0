"""Hashing beside the work: sha256 on a thread of its own, while the next bytes are decompressed."""

from __future__ import annotations

import threading
from queue import Queue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from builder.digest import Hasher

WAITING_CHUNKS: Final = 4
"""So many chunks at most wait to be hashed; each has a MiB or less."""


class HashingThread:
    """A context manager whose thread hashes chunks in their order; it ends with the block.

    Decompressing and hashing both let other Python threads run, so of the two only the slower one
    takes time where there are two cores.
    """

    def __init__(self) -> None:
        self._waiting: Queue[tuple[Hasher, bytes] | None] = Queue(WAITING_CHUNKS)
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def tee(self, hasher: Hasher, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks; after the last, the hasher has taken them all, and not before."""
        for chunk in chunks:
            self._put(hasher, chunk)
            yield chunk
        self._waiting.join()

    def _put(self, hasher: Hasher, chunk: bytes) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._hash, name="hashing", daemon=True)
            self._thread.start()
        self._waiting.put((hasher, chunk))

    def _hash(self) -> None:
        while (item := self._waiting.get()) is not None:
            hasher, chunk = item
            hasher.update(chunk)
            self._waiting.task_done()
