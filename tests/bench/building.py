"""`inv build --locked` when there is nothing new: what a person or CI waits for most often."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from tests.bench.measure import alternate, inv, seconds_of
from tests.bench.result import Limit, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.workplace import Workplace

IMPORTS: Final = "import pydantic, docker, invoke"


def measure(place: Workplace) -> Iterator[Result]:
    """The time of a whole process that proves the image again, with everything in the store."""
    build = inv("build", "--locked", "--file", str(place.cluster("build").file))
    seconds_of(build, cwd=place.root)
    ours, theirs = alternate(
        (
            lambda _round: seconds_of(build, cwd=place.root),
            lambda _round: seconds_of([sys.executable, "-c", IMPORTS]),
        ),
        rounds=9,
    )
    yield Result(
        name="build",
        what="inv build --locked with a warm store, whole process",
        yardstick=f"python -c '{IMPORTS}'",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("ratio", 3),
    )
