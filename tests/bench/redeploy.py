"""`inv deploy` when nothing changed: finding that out must cost no more than a glance."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.bench.errors import MeasuredCommandError
from tests.bench.measure import alternate, inv, output_of, seconds_of
from tests.bench.result import Limit, Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.workplace import Cluster, Workplace

ROUNDS: Final = 7


@dataclass(frozen=True, slots=True)
class Redeploy:
    """A second deploy of a cluster, as a whole process."""

    root: Path
    cluster: Cluster

    def __call__(self, _round: int) -> float:
        """Seconds; MeasuredCommandError if anything changed."""
        argv = inv("deploy", "--json", "--file", str(self.cluster.file))
        started = time.perf_counter()
        said = output_of(argv, cwd=self.root)
        elapsed_s = time.perf_counter() - started
        if json.loads(said)["changed"]:
            raise MeasuredCommandError(argv, 0, f"something changed:\n{said}")
        return elapsed_s


def measure(place: Workplace) -> Iterator[Result]:
    """Two nodes beside a login to each of them, then four nodes beside two."""
    pair = Redeploy(place.root, place.pair())
    ssh = ("ssh", "-F", str(place.lab.ssh_config))
    logins = [(*ssh, node.name, "true") for node in place.lab.nodes]
    ours, theirs = alternate((pair, lambda _round: seconds_of(*logins)), ROUNDS)
    yield Result(
        name="redeploy",
        what="inv deploy, two nodes, nothing changed, whole process",
        yardstick="ssh NODE true, one node after the other",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("median", 2),
        note="the claim is for two cores; the ratio is for comparing machines",
    )
    with place.four() as four:
        ours, theirs = alternate((Redeploy(place.root, four), pair), ROUNDS)
    yield Result(
        name="redeploy-four",
        what="inv deploy, four nodes, nothing changed, whole process",
        yardstick="the same with two nodes",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("ratio", 1.3),
        note="all nodes, their sshd and engines share this machine's cores with us",
    )
