from __future__ import annotations

import pytest

from tests.unit.verify import samples
from verify.errors import UnreadableFactError
from verify.traffic import (
    ERROR_COUNTERS,
    Moved,
    Traffic,
    counter_paths,
    growth,
    parse_counters,
    traffic_of,
)

PORT = samples.expected().nodes[1].ports[0]
PATHS = counter_paths(PORT)
XMIT = "/sys/class/infiniband/rocep1s0f1/ports/1/counters/port_xmit_data"


def test_counters_are_whole_numbers() -> None:
    assert parse_counters({"/sys/a": "12"}) == {"/sys/a": 12}
    with pytest.raises(UnreadableFactError):
        parse_counters({"/sys/a": "many"})


def test_rdma_counters_are_in_units_of_four_bytes_and_netdev_counters_are_not() -> None:
    before = dict.fromkeys(PATHS, 100)
    after = before | dict(zip(PATHS, (110, 120, 130, 140), strict=False))
    found = traffic_of(PORT, before, after)
    assert (found.rdma_sent, found.rdma_received) == (40, 80)
    assert (found.netdev_sent, found.netdev_received) == (30, 40)
    assert (found.unread, found.restarted) == ((), ())


@pytest.mark.parametrize("name", ERROR_COUNTERS)
def test_each_error_counter_of_the_device_is_read_by_its_name(name: str) -> None:
    path = f"/sys/class/infiniband/rocep1s0f1/ports/1/{name}"
    before = dict.fromkeys(PATHS, 1)
    errors = traffic_of(PORT, before, {**before, path: 3}).errors
    assert errors is not None
    assert {key: count for key, count in errors.items() if count} == {name: 2}


def test_counters_that_are_missing_moved_nothing_and_are_named() -> None:
    found = traffic_of(PORT, {}, {})
    assert found == Traffic(errors={}, unread=PATHS[:4])
    assert XMIT in found.unread


@pytest.mark.parametrize(
    ("before", "after", "grown"),
    [
        (5, 5, 0),
        (5, 9, 4),
        (2**32 - 10, 90, 100),  # of 32 bits, past their end
        (2**64 - 10, 90, 100),  # of 64
        (3_000_000_000, 90, 90),  # far from any end: set to 0, and at least this was counted since
        (2**40, 0, 0),
    ],
)
def test_a_counter_that_fell_has_passed_its_end_or_began_again(
    before: int, after: int, grown: int
) -> None:
    assert growth(before, after) == grown


def test_a_counter_that_began_again_is_named() -> None:
    before = dict.fromkeys(PATHS, 0) | {XMIT: 10**9}
    assert traffic_of(PORT, before, {**before, XMIT: 7}).restarted == (XMIT,)
    assert traffic_of(PORT, before | {XMIT: 2**64 - 1}, {**before, XMIT: 7}).restarted == ()


def test_of_a_tiny_model_the_difference_of_both_is_judged() -> None:
    moved = Moved(Traffic(rdma_sent=100), Traffic(rdma_sent=130))
    assert moved.judged("rdma_sent", tiny=True) == 30
    assert moved.judged("rdma_sent", tiny=False) == 130
    assert moved.text(("rdma_sent",)) == "100 then 130 bytes sent"
