"""Peak memory of building, with a small and a large base: layers must only stream through."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.bench.measure import alternate, probe
from tests.bench.result import Limit, Result
from tests.bench.workplace import LARGE_MB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.workplace import Cluster, Workplace

SMALL_MB: Final = 20


def measure(place: Workplace) -> Iterator[Result]:
    """The peak of `inv lock` and `inv build --locked`, each with an empty store."""
    small = place.cluster("small", base_mb=SMALL_MB)
    large = place.cluster("large", base_mb=LARGE_MB)

    def peak_mib(cluster: Cluster, args: tuple[str, ...], _round: int) -> float:
        shutil.rmtree(cluster.store)
        return probe(*args, "--quiet", "--file", str(cluster.file), cwd=place.root).peak_mib

    for name, args in (("lock", ("lock",)), ("build", ("build", "--locked"))):
        sides = (partial(peak_mib, large, args), partial(peak_mib, small, args))
        ours, theirs = alternate(sides, rounds=3)
        yield Result(
            name=f"memory-{name}",
            what=f"peak resident memory of inv {' '.join(args)}, base of {LARGE_MB} MB",
            yardstick=f"the same with a base of {SMALL_MB} MB",
            unit="MiB",
            ours=ours,
            theirs=theirs,
            limit=Limit("ratio", 1.1),
            note="the store is empty, so every layer is read",
        )
