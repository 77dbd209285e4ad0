"""`inv bench`: every speed claim, measured beside its yardstick in the same run.

A ratio of two things that are measured in turn on one machine says the same on another; seconds do
not. So claims are ratios where they can be, and no test ever looks at a clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from builder.progress import Silent
from tests.bench import (
    building,
    closure,
    delivery,
    first_delivery,
    gap,
    lab_cycle,
    listing,
    memory,
    preflight,
    reading,
    rebuilding,
    redeploy,
    status,
    weights,
)
from tests.bench.errors import UnknownBenchmarkError
from tests.bench.machine import load_average, this_machine
from tests.bench.report import BenchReport
from tests.bench.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from builder.progress import Progress
    from tests.bench.result import Result

    Benchmark: TypeAlias = Callable[[Workplace], Iterator[Result]]

BENCHMARKS: Final[Mapping[str, Benchmark]] = {
    "list": listing.measure,
    "build": building.measure,
    "rebuild": rebuilding.measure,
    "donor": reading.measure,
    "closure": closure.measure,
    "memory": memory.measure,
    "lab": lab_cycle.measure,
    "preflight": preflight.measure,
    "status": status.measure,
    "redeploy": redeploy.measure,
    "gap": gap.measure,
    "delivery": delivery.measure,
    "first": first_delivery.measure,
    "weights": weights.measure,
    "hashing": weights.measure_hashing,
}


def run_benchmarks(
    root: Path, *, only: str = "", long: bool = False, progress: Progress | None = None
) -> BenchReport:
    """The results of the benchmarks whose name contains `only`; `root` is the repository.

    With `long` images have the sizes that claims are made for, and not such as take minutes.

    Whatever they start is ended, and whatever they make is removed. UnknownBenchmarkError when none
    has such a name; other errors tell why one could not be measured.
    """
    chosen = {name: measure for name, measure in BENCHMARKS.items() if only in name}
    if not chosen:
        raise UnknownBenchmarkError(only, tuple(BENCHMARKS))
    told = progress or Silent()
    load_before = load_average()
    results: list[Result] = []
    with Workplace(root, told, long=long) as place:
        for name, measure in chosen.items():
            told.stage(f"measure {name}")
            for result in measure(place):
                told.note(result.headline())
                results.append(result)
    return BenchReport(this_machine(load_before), tuple(results))
