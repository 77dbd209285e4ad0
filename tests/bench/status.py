"""`inv status` of two nodes, beside asking them by hand and beside sparkrun."""

from __future__ import annotations

import os
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.bench.errors import MeasuredCommandError
from tests.bench.first_delivery import SPARKRUN
from tests.bench.measure import alternate, inv, plain_environment, seconds_of
from tests.bench.result import Limit, Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.workplace import Workplace

ROUNDS: Final = 9
SETTINGS: Final = """\
ssh:
  options: ["-F", "{config}"]
"""
"""sparkrun's own settings, by which its ssh knows the lab's nodes."""


def measure(place: Workplace) -> Iterator[Result]:
    """Whole processes, in turn."""
    status = inv("status", "--file", str(place.pair().file))
    ssh = ("ssh", "-F", str(place.lab.ssh_config))
    by_hand = [(*ssh, node.name, "docker", "ps") for node in place.lab.nodes]
    ours, theirs = alternate(
        (
            lambda _round: seconds_of(status, cwd=place.root),
            lambda _round: seconds_of(*by_hand),
        ),
        ROUNDS,
    )
    yield Result(
        name="status",
        what="inv status, two nodes, whole process",
        yardstick="ssh NODE docker ps, one node after the other",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("median", 1),
        note="ours also compares image, model, settings and fabric of both with the lock",
    )
    if SPARKRUN not in os.environ:
        place.progress.note(f"{SPARKRUN} is not set: status is not measured beside sparkrun's")
        return
    sparkrun = partial(_sparkrun, place, os.environ[SPARKRUN], _home(place))
    ours, theirs = alternate((lambda _round: seconds_of(status, cwd=place.root), sparkrun), ROUNDS)
    yield Result(
        name="status-sparkrun",
        what="inv status, two nodes, whole process",
        yardstick="sparkrun status --hosts of the same nodes",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("ratio", 0.5),
        note="sparkrun finds no container of its own there, and so asks less than it otherwise may",
    )


def _home(place: Workplace) -> Path:
    """A home folder in which sparkrun finds settings, and leaves what it keeps."""
    home = place.folder / "sparkrun-home"
    settings = home / ".config" / "sparkrun" / "config.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS.format(config=place.lab.ssh_config))
    return home


def _sparkrun(place: Workplace, python: str, home: Path, _round: int) -> float:
    """Seconds of sparkrun's status; MeasuredCommandError unless it reached both nodes."""
    nodes = ",".join(node.name for node in place.lab.nodes)
    argv = (python, "-m", "sparkrun", "status", "--hosts", nodes)
    own = {**plain_environment(), "HOME": str(home)}
    started = time.perf_counter()
    done = subprocess.run(argv, env=own, cwd=home, capture_output=True, text=True, check=False)
    elapsed_s = time.perf_counter() - started
    if done.returncode or "Error" in done.stdout:
        raise MeasuredCommandError(argv, done.returncode, done.stdout + done.stderr)
    return elapsed_s
