"""`inv --list`: the map of the project must come at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from tests.bench.measure import alternate, inv, probe, seconds_of
from tests.bench.result import Limit, Result, Samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.workplace import Workplace

HEAVY: Final = frozenset({"docker", "pydantic", "pytest", "requests", "rich", "testinfra"})
EMPTY_TASKS: Final = """\
from invoke import task


@task
def nothing(_ctx):
    \"\"\"Do nothing.\"\"\"
"""


def measure(place: Workplace) -> Iterator[Result]:
    """The time of a listing, and the heavy modules that it imports."""
    empty = place.folder / "empty"
    empty.mkdir()
    (empty / "tasks.py").write_text(EMPTY_TASKS)
    ours, theirs = alternate(
        (
            lambda _round: seconds_of(inv("--list"), cwd=place.root),
            lambda _round: seconds_of((sys.executable, "-m", "invoke", "--list"), cwd=empty),
        ),
        rounds=11,
    )
    yield Result(
        name="list",
        what="inv --list",
        yardstick="invoke --list of a tasks.py with one empty task",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("ratio", 1.3),
    )
    loaded = sorted(HEAVY & probe("--list", cwd=place.root).modules)
    yield Result(
        name="list-imports",
        what=f"which of {', '.join(sorted(HEAVY))} are imported by inv --list",
        yardstick="",
        unit="modules",
        ours=Samples((len(loaded),)),
        limit=Limit("median", 0),
        note=", ".join(loaded),
    )
