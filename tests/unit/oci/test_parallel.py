"""Several layers at once: the outcome is that of reading one after the other."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time

import pytest

from builder.digest import digest_bytes
from builder.oci.errors import MissingBlobError
from builder.oci.layers import read_layers
from builder.oci.parallel import AT_ONCE, GivenUpError, Wanted, in_parallel
from tests.fakes import MemoryBlobs
from tests.unit.oci.archives import Published, file, tar_of

NEVER_S = 20.0
"""A test that waits so long has failed."""


def ignore(_item: object) -> None:
    """Nothing."""


class Gate:
    """Lets items end in an order of the test's choice, once all of them have begun."""

    def __init__(self, order: list[int]) -> None:
        self._begun = threading.Barrier(len(order))
        self._turns = {item: threading.Event() for item in order}
        self._after = dict(itertools.pairwise(order))
        self._turns[order[0]].set()

    def passed(self, item: int) -> None:
        self._begun.wait(NEVER_S)
        assert self._turns[item].wait(NEVER_S)

    def next(self, item: int) -> None:
        if item in self._after:
            self._turns[self._after[item]].set()


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_results_are_in_the_order_of_the_items_whichever_ends_first(order: list[int]) -> None:
    gate = Gate(order)
    begun: list[int] = []

    def work(item: int, _wanted: Wanted) -> str:
        gate.passed(item)
        gate.next(item)
        return f"result {item}"

    found = in_parallel(range(4), work, begun=begun.append)
    assert list(found) == [f"result {n}" for n in range(4)]
    assert begun == [0, 1, 2, 3]


@pytest.mark.parametrize("order", [[1, 2, 3, 0], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_of_several_failures_the_first_items_is_raised_whichever_came_first(
    order: list[int],
) -> None:
    gate = Gate(order)

    def work(item: int, _wanted: Wanted) -> None:
        gate.passed(item)
        gate.next(item)
        if item > 0:
            raise ValueError(item)

    with pytest.raises(ValueError, match="1"):
        list(in_parallel(range(4), work, begun=ignore))


def test_what_comes_after_a_failure_is_given_up_while_what_comes_before_goes_on() -> None:
    begun, given_up = threading.Barrier(AT_ONCE), threading.Event()
    ended: list[int] = []

    def work(item: int, wanted: Wanted) -> None:
        begun.wait(NEVER_S)
        if item == 1:
            raise ValueError(item)
        if item > 1:
            try:
                list(wanted.chunks(iter(lambda: b"", None)))
            except GivenUpError:
                given_up.set()
                raise
        assert given_up.wait(NEVER_S)
        ended.append(item)

    with pytest.raises(ValueError, match="1"):
        list(in_parallel(range(20), work, begun=ignore))
    assert ended == [0]


def test_no_more_than_some_are_at_work_at_once() -> None:
    busy, most = 0, 0
    lock = threading.Lock()

    def work(_item: int, _wanted: Wanted) -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.005)
        with lock:
            busy -= 1

    list(in_parallel(range(5 * AT_ONCE), work, begun=ignore))
    assert 1 < most <= AT_ONCE


def test_work_is_never_far_ahead_of_who_takes_the_results() -> None:
    begun: list[int] = []
    found = in_parallel(range(100), lambda item, _wanted: item, begun=begun.append)
    for item in found:
        assert len(begun) <= item + AT_ONCE
    assert begun == list(range(100))


def test_who_takes_no_more_leaves_no_thread() -> None:
    def work(item: int, wanted: Wanted) -> int:
        while item > 1:
            wanted.check()
            time.sleep(0.001)
        return item

    found = in_parallel(range(9), work, begun=ignore)
    assert next(found) == 0
    found.close()
    assert layer_threads() == 0


def layer_threads() -> int:
    return sum(thread.name == "layer" for thread in threading.enumerate())


def test_who_cannot_tell_that_an_item_begins_fails_with_it() -> None:
    def begun(item: int) -> None:
        if item == 2:
            raise BrokenPipeError(item)

    with pytest.raises(BrokenPipeError):
        list(in_parallel(range(9), lambda item, _wanted: item, begun=begun))


def test_an_interrupt_ends_all_work_at_once() -> None:
    at_work = threading.Semaphore(0)

    def work(_item: int, wanted: Wanted) -> None:
        at_work.release()
        while True:
            wanted.check()
            time.sleep(0.001)

    def interrupt() -> None:
        for _ in range(AT_ONCE):
            at_work.acquire()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        list(in_parallel(range(9), work, begun=ignore))
    assert layer_threads() == 0


def test_layers_read_at_once_give_what_each_gives_alone() -> None:
    published = Published()
    tars = [tar_of(file(f"f{n}", bytes([n]) * 5000), file("same", b"x")) for n in range(12)]
    image = published.image(*tars)
    blobs = MemoryBlobs()
    wanted = [(layer, lambda path: path != "same") for layer in image.layers]

    found = list(read_layers(published.source, wanted, blobs))

    assert found == [next(read_layers(published.source, [item], blobs)) for item in wanted]
    assert set(blobs.data) == {digest_bytes(bytes([n]) * 5000) for n in range(12)}


def test_the_lowest_layer_that_is_wrong_is_the_one_named() -> None:
    published = Published()
    image = published.image(*(tar_of(file(f"f{n}")) for n in range(9)))
    for layer in image.layers[4:]:
        del published.source.blobs[layer.descriptor.digest]

    wanted = [(layer, lambda _path: False) for layer in image.layers]
    for _ in range(20):
        with pytest.raises(MissingBlobError) as caught:
            list(read_layers(published.source, wanted, MemoryBlobs()))
        assert caught.value.digest == image.layers[4].descriptor.digest
