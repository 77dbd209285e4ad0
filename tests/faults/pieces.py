"""A run of hours in pieces: some of the steps, some of the time, and whatever was seen is told."""

from __future__ import annotations

import itertools
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.faults.outcomes import Outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pytest

    from tests.faults.pair import Pair

OUTCOMES: Final = Outcomes()


def add_options(parser: pytest.Parser) -> None:
    """Options that count when the tests of faults are named on pytest's command line."""
    parser.addoption(
        "--every",
        type=int,
        default=1,
        help="of all steps only every so many; each test begins at another one",
    )
    parser.addoption(
        "--within", type=float, default=float("inf"), help="no fault begins after so many seconds"
    )
    parser.addoption("--outcomes", help="the JSON file of all outcomes")


@dataclass
class Piece:
    """What part of a run this one is; made once for a session."""

    every: int = 1
    within_s: float = float("inf")
    begun: float = field(default_factory=time.monotonic)
    _turns: Iterator[int] = field(default_factory=itertools.count)

    def share(self, steps: Sequence[str]) -> Sequence[str]:
        """The steps that have their turn."""
        return steps[next(self._turns) % self.every :: self.every]

    @property
    def over(self) -> bool:
        return time.monotonic() - self.begun > self.within_s


PIECE: Final = Piece()


def configure(config: pytest.Config) -> None:
    """A run that is told to end, as by `timeout`, ends in order and so prints its table."""
    PIECE.every = config.getoption("every", 1)
    PIECE.within_s = config.getoption("within", float("inf"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def at_every(pair: Pair, steps: Sequence[str], inject: Callable[[str], None]) -> None:
    """Every step has its turn, also after one that failed; all failures are told together."""
    failures = []
    for number, step in enumerate(chosen := PIECE.share(steps)):
        if PIECE.over:
            OUTCOMES.left_out += len(chosen) - number
            break
        try:
            inject(step)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next step has its turn
            failures.append(f"at {step}: {type(error).__name__}: {error}")
            OUTCOMES.failed.append(f"{pair.case} at {step}: {str(error).splitlines()[0]}")
            pair.recover()
    assert not failures, "\n\n".join(failures)


def summarise(terminalreporter: pytest.TerminalReporter, file: Path) -> None:
    """The table of what was seen so far."""
    if not OUTCOMES.rows and not OUTCOMES.failed:
        return
    terminalreporter.section(f"outcomes of {len(OUTCOMES.rows)} faults, also in {file}")
    terminalreporter.write_line(OUTCOMES.table())
    for line in OUTCOMES.failed:
        terminalreporter.write_line(f"FAILED {line}")
    if OUTCOMES.left_out:
        terminalreporter.write_line(f"time was over before {OUTCOMES.left_out} more faults")
