"""Waiting for somebody who is silent while it works, and giving up when told to."""

from __future__ import annotations

import threading
from queue import Empty, Queue
from typing import TYPE_CHECKING, Final, TypeVar

from deploy.errors import DeployInterruptedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

POLL_S: Final = 0.1
"""How often a waiter asks whether to stop."""


class _End:
    """After the last item, with what ended them early."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def until_stopped(begin: Callable[[], Iterable[T]], stopped: Callable[[], bool]) -> Iterator[T]:
    """The items as they come; DeployInterruptedError as soon as `stopped` says so.

    A thread waits for them. One that was given up waits on, until what it reads from is closed;
    what `stopped` raises passes through.
    """
    queue: Queue[T | _End] = Queue()
    threading.Thread(target=_read, args=(begin, queue), daemon=True).start()
    while True:
        if stopped():
            raise DeployInterruptedError
        try:
            item = queue.get(timeout=POLL_S)
        except Empty:
            continue
        if not isinstance(item, _End):
            yield item
        elif item.error is None:
            return
        else:
            raise item.error


def _read(begin: Callable[[], Iterable[T]], queue: Queue[T | _End]) -> None:
    error = None
    try:
        for item in begin():
            queue.put(item)
    except BaseException as caught:  # noqa: BLE001 - raised again by the one who waits
        error = caught
    queue.put(_End(error))
