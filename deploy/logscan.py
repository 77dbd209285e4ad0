"""Which lines of a rank's log say that it failed, though its client was answered.

A rank other than the head can fail every step while the head answers 200 (a smaller max-model-len
does it): only its own log tells.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from deploy.state import LogLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PREFIX: Final = r"(?:\([^()]{1,80}\) ?)*"
"""Of vLLM's lines, such as `(Worker_TP1 pid=42) `; before vLLM 0.11 also `(VllmWorker rank=1)`."""

FAILED: Final = re.compile(
    rf"^{PREFIX}(?:"
    r"(?:ERROR|CRITICAL|FATAL)\b"  # vLLM's own lines, and uvicorn's
    r"|Traceback \(most recent call last\):"
    r"|\w*(?:Error|Exception): "  # the last line of a traceback, when its start was not caught
    r"|Fatal Python error"
    r"|(?:\[rank\d+\]:)?\[[EF]\d{3,4}[ -]"  # PyTorch's own (glog), level E or F
    r")|\bNCCL WARN\b|\bCUDA error:|\bSegmentation fault\b"
)
"""A line of a failure. NCCL's WARN is its name for errors: what is no error is INFO there."""

FRAME: Final = re.compile(r"\]\s{2,}\S|\]\s*$")
"""A frame of a traceback as vLLM logs it, each line with level and place: `[core.py:9]   File`."""

NCCL_FAILED: Final = re.compile(r"\bNCCL WARN\b")

HARMLESS: Final = (
    re.compile(r"GPU Direct RDMA Disabled"),  # GB10 has none
    re.compile(r"undefined symbol: \w*nccl\w*Plugin|nccl\w*Plugin.*undefined symbol"),
    re.compile(r"insufficient power"),  # of mlx5, on healthy Sparks too
    re.compile(r"NCCL WARN NUMA auto balancing enabled"),  # advice
    re.compile(r"NCCL WARN Missing .?iommu=pt.? from kernel command line"),  # advice
)
"""Lines that look like a failure and are none."""

FRACTION_DIGITS: Final = 9


def failures_in(lines: Iterable[LogLine]) -> tuple[str, ...]:
    """The lines of a failure among these, without the harmless ones and frames, in their order."""
    found = (line for line in lines if FAILED.search(line.text) and not _harmless(line))
    return tuple(line.text for line in found if not FRAME.search(line.text))


def nccl_failures_in(lines: Iterable[LogLine]) -> tuple[str, ...]:
    """NCCL's own failures among these: of a start too they matter, whatever still worked."""
    return tuple(
        line.text for line in lines if NCCL_FAILED.search(line.text) and not _harmless(line)
    )


def _harmless(line: LogLine) -> bool:
    return any(pattern.search(line.text) for pattern in HARMLESS)


def later_lines(text: str, after: str) -> tuple[LogLine, ...]:
    """The lines of a log, each with its time before it, that are later than a time.

    Times are RFC 3339 of one node's clock, as Docker writes them; an empty `after` is before all.
    """
    limit = sortable(after)
    return tuple(line for line in _lines(text) if line.at > limit)


def _lines(text: str) -> Iterator[LogLine]:
    for line in text.split("\n"):
        at, _, told = line.partition(" ")
        if at:
            yield LogLine(sortable(at), told.rstrip("\r"))


def sortable(time: str) -> str:
    """A time as text that sorts: the engine leaves out zeros at the end of its fractions."""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<{FRACTION_DIGITS}}Z" if seconds else ""
