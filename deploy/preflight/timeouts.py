"""Rules on the manifest's time-outs: long enough for a model of its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.preflight import rows
from deploy.preflight.finding import Spot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deploy.preflight.finding import Finding
    from deploy.wanted import Wanted

READ_BYTES_S: Final = 500_000_000
"""What a rank reads of a model per second at least, from a Spark's own disk and with conversion."""

STARTS_S: Final = 120
"""What imports, the meeting of the ranks and graph capture take beside it."""

COMPLETES_S: Final = 10
"""What a first completion may take: kernels are still being compiled."""


def timeouts(wanted: Wanted) -> Iterator[Finding]:
    """Limits that would end a start which only takes its time; the lab's models take none."""
    manifest = wanted.manifest
    if manifest.container.gpus != "all":
        return
    serve, nodes = manifest.serve, tuple(node.name for node in manifest.nodes)
    size_bytes = sum(file.size_bytes for file in wanted.model_files)
    needed_s = STARTS_S + size_bytes // READ_BYTES_S
    if serve.start_timeout_s < needed_s:
        yield Spot(rows.TIMEOUTS, nodes, place="cluster.toml: serve.start_timeout_s").warning(
            "the time for a start is short for a model of this size",
            expected=f"about {needed_s} s or more",
            found=f"{serve.start_timeout_s} s",
            remedy="raise it: a first start also compiles, up to 40 minutes in some reports",
        )
    if serve.completion_timeout_s < COMPLETES_S:
        yield Spot(rows.TIMEOUTS, nodes, place="cluster.toml: serve.completion_timeout_s").warning(
            "the time for a completion is short",
            expected=f"{COMPLETES_S} s or more",
            found=f"{serve.completion_timeout_s} s",
            remedy="raise it: the first completion of a server also compiles",
        )
