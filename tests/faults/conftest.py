"""One pair for all faults: after each of them it serves again, so the next one begins there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from builder.progress import Silent
from deploy.lab.lifecycle import lab_up
from tests.faults import pieces
from tests.faults.controller import key_of
from tests.faults.outcomes import Outcome
from tests.faults.pair import Pair
from tests.faults.pieces import OUTCOMES
from tests.integration.conftest import lab, lab_root
from tests.integration.deploy.conftest import own_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deploy.lab.lifecycle import LabState
    from tests.faults.run import Run

__all__ = ["lab", "lab_root"]

ROOT: Final = Path(__file__).resolve().parents[2]
START_S: Final = 20
"""What a pair that cannot start takes until it is given up."""


def pytest_addoption(parser: pytest.Parser) -> None:
    pieces.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    pieces.configure(config)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    pieces.summarise(terminalreporter, outcomes_file(config))


def outcomes_file(config: pytest.Config) -> Path:
    named: str | None = config.getoption("outcomes", None)
    return Path(named) if named else ROOT / ".sparklock" / "faults.json"


@pytest.fixture(scope="session")
def pair(
    lab: LabState,
    lab_root: Path,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Pair]:
    """A pair of which a first generation serves."""
    with own_cluster(lab, lab_root, tmp_path_factory.mktemp("faults"), "faults") as cluster:
        pair = Pair(cluster, outcomes_file(pytestconfig))
        cluster.change("serve", start_timeout_s=START_S)
        pair.serve_anew()
        try:
            yield pair
        finally:
            pair.end_runs()


@pytest.fixture(scope="session")
def whole(pair: Pair) -> Run:
    """A deploy that replaced image and model, and that nothing happened to."""
    pair.change()
    run = pair.run("deploy")
    assert run.end() == 0, run.said
    return run


@pytest.fixture(scope="session")
def steps(whole: Run) -> tuple[str, ...]:
    """The keys of all its steps, in their order."""
    return tuple(dict.fromkeys(map(key_of, whole.steps)))


class Case:
    """A task that changes what serves, and that something happens to.

    A deploy brings a new variant, a rollback what served before the last deploy.
    """

    def __init__(self, pair: Pair, fault: str, task: str = "deploy") -> None:
        self.pair = pair
        self.fault = fault if task == "deploy" else f"{task}: {fault}"
        self.step = ""
        self._task = task
        pair.case = self.fault
        pair.trim()
        if task == "deploy":
            self._old = pair.locks.get(pair.see().lock)
            pair.change()
        else:
            pair.serve_anew(model=False)  # a rollback brings no other model
            self._old = pair.variant

    def run(self, hold: str = "-") -> Run:
        """The task, held before a step; it is not if it ends earlier."""
        self.step = hold
        run = self.pair.run(self._task, hold=hold)
        if hold != "-":
            assert run.held(), f"never came to {hold!r}: {run.steps} {run.said}"
        return run

    def settle(
        self, run: Run, status: int, *, command: str = "deploy", healthy: bool = False
    ) -> Outcome:
        """See that a pair serves and nothing is left, at the latest after one command.

        `healthy` says that nothing was done to the nodes.
        """
        if not healthy:
            lab_up(self.pair.cluster.lab.spec, Silent())  # who was off is on
        served, left = self.pair.outcome()
        left += [f"ssh process {master.pid}" for master in run.masters if master.alive]
        if status >= 0:
            left += [str(master.folder) for master in run.masters if master.folder.exists()]
        needed, then, still = "nothing", served, left
        if served is None or left:
            needed = f"inv {command}"
            mended = self.pair.run(command)
            assert mended.end() == 0, (self._told(run, status, served, left), mended.said)
            then, still = self.pair.outcome()
        outcome = Outcome(
            fault=self.fault,
            step=self.step,
            exit=status,
            served=self._words(served),
            left=tuple(left),
            command=needed,
            then=self._words(then),
            said=run.said,
        )
        OUTCOMES.rows.append(outcome)
        OUTCOMES.write(self.pair.outcomes)  # each time: a run of hours may be ended early
        told = self._told(run, status, served, left)
        assert then is not None, told
        assert still == [], told
        # What hits it after the confirmation may end it; the old pair never serves after a success.
        right = {"new"} if healthy else {"new", "nothing"}
        assert status != 0 or outcome.served in right, told
        return outcome

    def _words(self, variant: int | None) -> str:
        if variant is None:
            return "nothing"
        return "old" if variant == self._old else "new"

    def _told(self, run: Run, status: int, served: int | None, left: list[str]) -> str:
        return (
            f"{self.fault} at {self.step}: exit {status}, served {served}, left {left}\n"
            f"steps: {run.steps[-6:]}\n{run.said}"
        )


def at(steps: tuple[str, ...], begin: str) -> str:
    """The step that begins so."""
    return next(step for step in steps if step.startswith(begin))
