"""The same faults while `inv rollback` returns to the generation before."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.faults.conftest import Case, at
from tests.faults.controller import key_of
from tests.faults.pieces import at_every
from tests.faults.test_nodes import FAULTS
from tests.integration.deploy.conftest import NODES

if TYPE_CHECKING:
    from tests.faults.pair import Pair

pytestmark = [pytest.mark.lab, pytest.mark.faults]
COMMANDS: Final = ("deploy", "rollback")


@pytest.fixture(scope="session")
def rollback_steps(pair: Pair) -> tuple[str, ...]:
    """The keys of all steps of a rollback, in their order."""
    pair.serve_anew()
    pair.serve_anew(model=False)
    run = pair.run("rollback")
    assert run.end() == 0, run.said
    return tuple(dict.fromkeys(map(key_of, run.steps)))


def kill_at(pair: Pair, command: str, step: str) -> None:
    case = Case(pair, "kill -9 of the controller", "rollback")
    run = case.run(step)
    run.kill()
    case.settle(run, run.end(), healthy=True, command=command)


@pytest.mark.parametrize(("begin", "command"), [("> start the head", "rollback")])
def test_a_rollback_that_is_killed_at_a_step(
    pair: Pair, rollback_steps: tuple[str, ...], begin: str, command: str
) -> None:
    kill_at(pair, command, at(rollback_steps, begin))


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_a_rollback_that_is_killed_at_every_step(
    pair: Pair, rollback_steps: tuple[str, ...], command: str
) -> None:
    at_every(pair, rollback_steps, partial(kill_at, pair, command))


@pytest.mark.long
@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_every_step_of_a_rollback(
    pair: Pair, rollback_steps: tuple[str, ...], fault: str, name: str
) -> None:
    commands = itertools.cycle(COMMANDS)

    def inject(step: str) -> None:
        case = Case(pair, f"{fault}, {name}", "rollback")
        run = case.run(step)
        with FAULTS[fault](pair.cluster.node(name), pair.name):
            run.release()
            status = run.end()
        case.settle(run, status, command=next(commands))

    at_every(pair, rollback_steps, inject)
