"""The controller is killed, or told to end, at every step and at moments that nobody chose."""

from __future__ import annotations

import random
import signal
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.faults.conftest import Case, at
from tests.faults.pieces import at_every

if TYPE_CHECKING:
    from tests.faults.pair import Pair
    from tests.faults.run import Run

pytestmark = [pytest.mark.lab, pytest.mark.faults]
SEED: Final = 4
FEW: Final = 2
MANY: Final = 200


def kill_at(pair: Pair, step: str) -> None:
    case = Case(pair, "kill -9 of the controller")
    run = case.run(step)
    run.kill()
    case.settle(run, run.end(), healthy=True)


def kill_at_random(pair: Pair, whole: Run, count: int) -> None:
    chosen = random.Random(SEED)  # noqa: S311 - the same shares of a deploy every time
    moments = {
        f"{share:.2%} of its time": share for share in (chosen.random() * 1.1 for _ in range(count))
    }

    def inject(moment: str) -> None:
        case = Case(pair, "kill -9 of the controller")
        run = case.run()
        case.step = f"{moment} (seed {SEED})"
        if run.running_for(moments[moment] * whole.took_s):
            run.note_masters()
            run.kill()
        case.settle(run, run.end(), healthy=True)

    at_every(pair, tuple(moments), inject)


@pytest.mark.parametrize("begin", ["> stop the old", "> start the head", "> keep the old"])
def test_a_controller_that_is_killed_at_a_step(
    pair: Pair, steps: tuple[str, ...], begin: str
) -> None:
    """Before the switch, in it and after it; the long form has every step."""
    kill_at(pair, at(steps, begin))


@pytest.mark.long
def test_a_controller_that_is_killed_at_every_step(pair: Pair, steps: tuple[str, ...]) -> None:
    at_every(pair, steps, partial(kill_at, pair))


def test_a_controller_that_is_killed_at_a_few_random_moments(pair: Pair, whole: Run) -> None:
    kill_at_random(pair, whole, FEW)


@pytest.mark.long
def test_a_controller_that_is_killed_at_many_random_moments(pair: Pair, whole: Run) -> None:
    kill_at_random(pair, whole, MANY)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_controller_that_is_interrupted_at_every_step_and_again(
    pair: Pair, steps: tuple[str, ...], number: signal.Signals
) -> None:
    def inject(step: str) -> None:
        case = Case(pair, number.name)
        run = case.run(step)
        run.signal(number)
        run.signal(number)
        run.release()
        status = run.end()
        outcome = case.settle(run, status, healthy=True)
        assert outcome.command == "nothing", outcome
        assert outcome.served == ("old" if status else "new"), outcome

    at_every(pair, steps, inject)
