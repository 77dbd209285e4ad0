"""`inv doctor`: all of preflight, the dear part too, on a pair that serves."""

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

WAYS = "2 of 2 ways at full MTU and open"


def measure(place: Workplace) -> Iterator[Result]:
    """The time of preflight on two nodes, whole process, beside that of a login to each node."""
    doctor = inv("doctor", "--json", "--file", str(place.pair().file))
    ssh = ("ssh", "-F", str(place.lab.ssh_config))
    logins = [(*ssh, node.name, "true") for node in place.lab.nodes]

    def doctor_s(_round: int) -> float:
        started = time.perf_counter()
        said = output_of(doctor, cwd=place.root)
        elapsed_s = time.perf_counter() - started
        tried = [node["facts"].get("to the peers") for node in json.loads(said)["nodes"]]
        if tried != [WAYS] * len(place.lab.nodes):
            raise MeasuredCommandError(doctor, 0, f"not all was looked at:\n{said}")
        return elapsed_s

    ours, theirs = alternate((doctor_s, lambda _round: seconds_of(*logins)), rounds=7)
    yield Result(
        name="preflight",
        what="inv doctor, two nodes, whole process",
        yardstick="ssh NODE true, one node after the other",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("median", 3),
        note="both halves of the fabric are tried in each direction: full MTU and TCP",
    )
