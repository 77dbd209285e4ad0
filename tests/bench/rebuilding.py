"""The hybrid built again, by us and by others: a base of many files, everything at hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from builder import pipeline as builder
from builder.edits import table_edit
from builder.progress import Silent
from deploy.lab.requirements import provide
from tests.bench.ballast import many_files
from tests.bench.measure import alternate, inv, seconds_of
from tests.bench.peers import PACKAGES, Umoci, buildah, docker, recipe
from tests.bench.result import Limit, Result, Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.bench.workplace import Cluster, Workplace

FILES: Final = 20_000
ROUNDS: Final = 5
SLOW_ROUNDS: Final = 3
IMAGE: Final = f"a hybrid over a base of {FILES} files"
WORK: Final = (
    f"{IMAGE} built --locked and proved again, in a Python that runs, as Docker's daemon does"
)
PROCESS: Final = "the same as `inv build --locked`, with the start of Python and its imports"


def measure(place: Workplace) -> Iterator[Result]:
    """The same hybrid by `docker build`, buildah and umoci, none with a cache of results."""
    provide(install=False, announce=place.progress.note, package_of=PACKAGES)
    images = {
        "base": place.image("base", "many-files", many_files(FILES)),
        "tiny": place.image("donor", "few-files", many_files(1)),
    }
    cluster = place.cluster("rebuild", images=images)
    built = builder.build(cluster.file, Silent(), locked=True)
    made = recipe(place.folder / "context", built, images, place.folder)
    work, process = _ours(place, cluster)
    with docker(place.folder / "docker", made) as ways:
        ours, whole, *theirs = alternate((work, process, *(way.seconds for way in ways)), ROUNDS)
        named = zip((way.name for way in ways), theirs, strict=True)
        yield from _results("docker", (ours, whole), min(named, key=_median), at_most=1 / 10)
    with buildah(place.folder / "buildah", made) as way:
        ours, whole, other = alternate((work, process, way.seconds), ROUNDS)
        yield from _results("buildah", (ours, whole), (way.name, other), at_most=1 / 3)
    umoci = Umoci(place.folder / "umoci", made)
    ours, whole, other, insert = alternate(
        (work, process, umoci.unpack_and_repack, umoci.insert), SLOW_ROUNDS
    )
    named_so = f"umoci {umoci.version}: unpack, copy, repack"
    yield from _results("umoci", (ours, whole), (named_so, other), at_most=1 / 3)
    yield Result(
        name="build-umoci-insert",
        what=WORK,
        yardstick=f"umoci {umoci.version}: unpack the donor, insert each file",
        unit="s",
        ours=ours,
        theirs=insert,
        note="umoci reads no base for it either, and gives every image another digest",
    )


def _median(named: tuple[str, Samples]) -> float:
    return named[1].median


def _ours(
    place: Workplace, cluster: Cluster
) -> tuple[Callable[[int], float], Callable[[int], float]]:
    """The build in this process, and in one of its own."""
    command = inv("build", "--locked", "--quiet", "--file", str(cluster.file))

    def work(_round: int) -> float:
        table_edit.cache_clear()  # of the round before: each makes its edits itself
        started = time.perf_counter()
        builder.build(cluster.file, Silent(), locked=True)
        return time.perf_counter() - started

    return work, lambda _round: seconds_of(command, cwd=place.root)


def _results(
    peer: str, ours: tuple[Samples, Samples], theirs: tuple[str, Samples], *, at_most: float
) -> Iterator[Result]:
    """Work and whole process of ours beside a peer, of which there is but one time."""
    limits = (Limit("ratio", at_most), None)
    named = ((f"build-{peer}", WORK), (f"build-{peer}-process", PROCESS))
    for (name, what), side, limit in zip(named, ours, limits, strict=True):
        yield Result(name, what, theirs[0], "s", side, theirs[1], limit)
