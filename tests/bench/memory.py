"""Peak memory of building, with small and large images: layers must only stream through."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.bench.ballast import many_files, software
from tests.bench.measure import alternate, probe
from tests.bench.result import Limit, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.workplace import Cluster, Workplace

SMALL_MB: Final = 20
LARGE_MB: Final = 900
LONG_MB: Final = 6000
"""Plain; gzip makes a third of it."""

LIMIT_MIB: Final = 150 * 10**6 / 2**20
FILES: Final = 200_000


def measure(place: Workplace) -> Iterator[Result]:
    """The peak of `inv lock` and `inv build --locked`, each with an empty store."""
    large_mb = LONG_MB if place.long else LARGE_MB
    small, large = (
        _cluster(place, name, mb) for name, mb in (("small", SMALL_MB), ("large", large_mb))
    )

    def peak_mib(cluster: Cluster, args: tuple[str, ...], _round: int) -> float:
        shutil.rmtree(cluster.store)
        return probe(*args, "--quiet", "--file", str(cluster.file), cwd=place.root).peak_mib

    for name, args in (("lock", ("lock",)), ("build", ("build", "--locked"))):
        sides = (partial(peak_mib, large, args), partial(peak_mib, small, args))
        ours, theirs = alternate(sides, rounds=2 if place.long else 3)
        yield Result(
            name=f"memory-{name}",
            what=f"peak resident memory of inv {' '.join(args)}, base and donor with a gzip layer"
            f" of {large_mb} MB each",
            yardstick=f"the same with layers of {SMALL_MB} MB",
            unit="MiB",
            ours=ours,
            theirs=theirs,
            limit=Limit("median", LIMIT_MIB),
            note="the store is empty, so every layer is read",
        )
    images = {"base": place.image("base", "entries", many_files(FILES))}
    many = place.cluster("entries", images=images)
    ours, _ = alternate((partial(peak_mib, many, ("lock",)), lambda _round: 0.0), rounds=1)
    yield Result(
        name="memory-entries",
        what=f"peak resident memory of inv lock, a base of {FILES} files",
        yardstick="",
        unit="MiB",
        ours=ours,
        note="this does grow, with the number of files",
    )


def _cluster(place: Workplace, name: str, size_mb: int) -> Cluster:
    images = {
        "base": place.image("base", f"{name}-base", software(size_mb)),
        "tiny": place.image("donor", f"{name}-donor", software(size_mb)),
    }
    return place.cluster(name, images=images)
