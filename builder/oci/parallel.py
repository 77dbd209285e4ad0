"""Several layers at once, and yet one outcome: that of reading them one after the other."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

AT_ONCE: Final = 4
"""Memory is bounded by this, not by the cores: each layer at work holds some MiB."""

ENDING_S: Final = 2.0
"""How long an interrupted caller waits for threads; one that hangs in a read ends with Python."""

NOTICE_S: Final = 0.2
"""How soon a signal is noticed that came just before the wait began, which does not end it."""

T = TypeVar("T")
R = TypeVar("R")


class GivenUpError(Exception):
    """Nobody wants the result any more: an item before it failed, or the caller was stopped."""


class Wanted:
    """Asked by work between its steps whether its result is still of use."""

    def __init__(self, last: Callable[[], int], index: int) -> None:
        self._last = last
        self._index = index

    def check(self) -> None:
        """Nothing; GivenUpError if the result is of no use any more."""
        if self._index > self._last():
            raise GivenUpError

    def chunks(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same chunks, as long as they are wanted."""
        for chunk in chunks:
            self.check()
            yield chunk


def in_parallel(
    items: Sequence[T], work: Callable[[T, Wanted], R], *, begun: Callable[[T], None]
) -> Generator[R]:
    """The result of each item, in their order; `begun` is told of each when its turn comes.

    Work is at most AT_ONCE items ahead of who takes the results. When some fail, the error of the
    first of them in that order is raised, whoever failed first in time: what comes later is given
    up, and what comes before is waited for. To close the generator gives up everything.
    """
    count = min(AT_ONCE, len(items))
    if count <= 1:
        for index, item in enumerate(items):
            begun(item)
            yield work(item, Wanted(lambda: len(items), index))
        return
    run = _Run(items, work, begun)
    threads: list[threading.Thread] = []
    try:
        for _ in range(count):
            threads.append(threading.Thread(target=run.work_off, name="layer", daemon=True))
            threads[-1].start()
        for index in range(len(items)):
            yield run.result(index)
    finally:
        run.give_up()
        for thread in threads:
            if thread.ident is not None:  # an interrupt can come before the last one starts
                thread.join(ENDING_S / count)


class _Run(Generic[T, R]):
    """The items, shared by the threads that work on them."""

    def __init__(
        self, items: Sequence[T], work: Callable[[T, Wanted], R], begun: Callable[[T], None]
    ) -> None:
        self._items = items
        self._work = work
        self._begun = begun
        self._changed = threading.Condition()
        self._next = 0
        self._asked = 0
        self._last = len(items) - 1
        self._results: dict[int, R] = {}
        self._failures: dict[int, BaseException] = {}

    def work_off(self) -> None:
        """Take one item after the other until none is left that is wanted."""
        while (index := self._take()) is not None:
            try:
                result = self._work(self._items[index], Wanted(lambda: self._last, index))
            except GivenUpError:
                return
            except BaseException as error:  # noqa: BLE001 - raised by result
                self._fail(index, error)
            else:
                with self._changed:
                    self._results[index] = result
                    self._changed.notify_all()

    def give_up(self) -> None:
        """No result is wanted any more."""
        with self._changed:
            self._last = -1
            self._changed.notify_all()

    def result(self, index: int) -> R:
        """What an item gave, once it is there; its failure raised. Asked for in order."""
        with self._changed:
            self._asked = index
            self._changed.notify_all()
            while index not in self._results and index not in self._failures:
                self._changed.wait(NOTICE_S)
            if index in self._failures:
                raise self._failures[index]
            return self._results.pop(index)

    def _take(self) -> int | None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._next > self._last or self._next < self._asked + AT_ONCE
            )
            index = self._next
            if index > self._last:
                return None
            self._next += 1
            try:
                self._begun(self._items[index])
            except BaseException as error:  # noqa: BLE001 - raised by result
                self._fail(index, error)
                return None
            return index

    def _fail(self, index: int, error: BaseException) -> None:
        with self._changed:
            self._failures[index] = error
            self._last = min(self._last, index)
            self._changed.notify_all()
