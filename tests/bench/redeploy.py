"""`inv deploy` when nothing changed: finding that out must cost no more than a glance."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from tests.bench.errors import MeasuredCommandError
from tests.bench.measure import alternate, inv, output_of, seconds_of
from tests.bench.result import Limit, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.workplace import Workplace


def measure(place: Workplace) -> Iterator[Result]:
    """The time of a second deploy, whole process, beside that of a login to each node."""
    deploy = inv("deploy", "--json", "--file", str(place.pair().file))
    ssh = ("ssh", "-F", str(place.lab.ssh_config))
    logins = [(*ssh, node.name, "true") for node in place.lab.nodes]

    def deploy_s(_round: int) -> float:
        started = time.perf_counter()
        said = output_of(deploy, cwd=place.root)
        elapsed_s = time.perf_counter() - started
        if json.loads(said)["changed"]:
            raise MeasuredCommandError(deploy, 0, f"something changed:\n{said}")
        return elapsed_s

    ours, theirs = alternate((deploy_s, lambda _round: seconds_of(*logins)), rounds=7)
    yield Result(
        name="redeploy",
        what="inv deploy, two nodes, nothing changed, whole process",
        yardstick="ssh NODE true, one node after the other",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("median", 3),
        note="the claim is for two cores; the ratio is for comparing machines",
    )
