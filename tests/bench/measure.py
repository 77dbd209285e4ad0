"""Measuring: sides in turn, whole processes, and what a process of ours tells of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.bench.errors import MeasuredCommandError
from tests.bench.result import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

START: Final = Path(__file__).parents[2] / "deploy" / "edges" / "start.py"

START_S: Final = 60
"""What a server may take until it answers, in seconds."""


def alternate(sides: Sequence[Callable[[int], float]], rounds: int) -> tuple[Samples, ...]:
    """What each side measured, given the round's number; in every round all sides have a turn.

    Every other round goes in reverse, so that no side always comes after the same one, and a load
    that comes or goes meets all sides.
    """
    found: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        turns = list(zip(sides, found, strict=True))
        for side, values in turns if number % 2 == 0 else reversed(turns):
            values.append(side(number))
    return tuple(Samples(tuple(values)) for values in found)


def seconds_of(*commands: Sequence[str], cwd: Path | None = None) -> float:
    """What the commands take one after the other, from their start to their end.

    MeasuredCommandError if one of them fails.
    """
    started = time.perf_counter()
    for argv in commands:
        output_of(argv, cwd=cwd)
    return time.perf_counter() - started


def plain_environment() -> dict[str, str]:
    """Our environment, in which Python keeps the bytecode of what it imports, as by default.

    Else what was not compiled when it was installed, such as all of ours, is so in every start.
    """
    return {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def output_of(argv: Sequence[str], *, cwd: Path | None = None) -> str:
    """What a command wrote to its standard output; MeasuredCommandError if it fails."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=plain_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise MeasuredCommandError(argv, done.returncode, done.stdout + done.stderr)
    return done.stdout


def await_success(
    process: subprocess.Popen[bytes],
    probe: Sequence[str],
    argv: Sequence[str],
    *,
    log: Path | None = None,
) -> None:
    """Nothing, once the probe succeeds; MeasuredCommandError when its process ends, or in time."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    said = log.read_text(errors="replace") if log else "it did not get ready"
    raise MeasuredCommandError(argv, process.poll() or 1, said)


def inv(*args: str) -> tuple[str, ...]:
    """The command of a task, as the `inv` script ends in it."""
    return (sys.executable, "-P", str(START), *args)


@dataclass(frozen=True, slots=True)
class Probed:
    """What a process of invoke tells at its end: its largest resident size, and its modules."""

    peak_mib: float
    modules: frozenset[str]


def probe(*args: str, cwd: Path) -> Probed:
    """Run a task in a process that tells of itself; `cwd` is the repository."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told.json")
        output_of([sys.executable, "-m", "tests.bench.probe", str(told), *args], cwd=cwd)
        document = json.loads(told.read_text())
    return Probed(document["peak_kib"] / 1024, frozenset(document["modules"]))
