"""A lab's coming and going: shown, and nothing is claimed of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from builder.progress import Silent
from deploy.lab.lifecycle import lab_down, lab_up
from tests.bench.result import Result, Samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.workplace import Workplace

ROUNDS: Final = 3


def measure(place: Workplace) -> Iterator[Result]:
    """Seconds until two nodes answer, and until nothing of them is left."""
    place.require_lab_machine()
    up: list[float] = []
    down: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        lab_up(place.other_lab, Silent())
        between = time.perf_counter()
        lab_down(place.other_lab)
        up.append(between - started)
        down.append(time.perf_counter() - between)
    yield Result("lab-up", "two nodes, from nothing to usable", "", "s", Samples(tuple(up)))
    yield Result("lab-down", "the same nodes removed", "", "s", Samples(tuple(down)))
