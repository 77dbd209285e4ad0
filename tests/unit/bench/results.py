"""Results with numbers of the test's choice."""

from __future__ import annotations

from typing import Any

from tests.bench.machine import Machine
from tests.bench.result import Result, Samples

MACHINE = Machine(
    2, "x86_64 some processor", 8, "some Linux", "3.11.0", "20.10.0", ("0.10", "0.90")
)


def samples(*values: float) -> Samples:
    return Samples(values)


def result(ours: Samples, theirs: Samples | None = None, **changes: Any) -> Result:  # noqa: ANN401
    named: dict[str, Any] = {"name": "some", "what": "a thing", "yardstick": "another"}
    return Result(ours=ours, theirs=theirs, **({"unit": "s"} | named | changes))
