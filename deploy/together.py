"""The same thing on every node at the same time, with every node's failure told."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from builder.errors import SparklockError
from deploy.errors import DeployInterruptedError, NodesFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

R = TypeVar("R")


def together(
    tasks: Mapping[str, Callable[[], R]], *, on_failure: Callable[[], None] | None = None
) -> dict[str, R]:
    """Every task's result, by node; returns when all have ended.

    Raises the failure of a node, or NodesFailedError for those of several. `on_failure` is called
    at the first one, so that it can ask the other tasks to stop. An interrupt waits for none: they
    end when what they wait for is closed.
    """
    if not tasks:
        return {}
    pool = ThreadPoolExecutor(len(tasks))
    try:
        running = {node: pool.submit(task) for node, task in tasks.items()}
        done = wait(running.values(), return_when=FIRST_EXCEPTION).done
        if on_failure and any(task.exception() for task in done):
            on_failure()
        wait(running.values())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    failures = [error for task in running.values() if (error := task.exception())]
    if failures:
        raise _one_error(failures)
    return {node: task.result() for node, task in running.items()}


def each(tasks: Mapping[str, Callable[[], R]]) -> tuple[dict[str, R], list[SparklockError]]:
    """As `together`, with what became of every node: the results, and the failures of the others.

    Raises only when all have failed, or what is no known failure.
    """
    failures: dict[str, SparklockError] = {}

    def tried(node: str, task: Callable[[], R]) -> list[R]:
        try:
            return [task()]
        except SparklockError as error:
            failures[node] = error
            return []

    found = together({node: partial(tried, node, task) for node, task in tasks.items()})
    told = [failures[node] for node in tasks if node in failures]
    if told and len(told) == len(tasks):
        raise _one_error(told)
    return {node: result for node, results in found.items() for result in results}, told


def failure_of(failures: Sequence[SparklockError]) -> SparklockError | None:
    """The one error of the nodes that failed; None if none did."""
    error = _one_error(failures) if failures else None
    assert error is None or isinstance(error, SparklockError)
    return error


def _one_error(failures: Sequence[BaseException]) -> BaseException:
    """The failure to raise: a bug before all, and no node's being asked to stop beside a cause."""
    known = [error for error in failures if isinstance(error, SparklockError)]
    if len(known) < len(failures):
        return next(error for error in failures if not isinstance(error, SparklockError))
    causes = [error for error in known if not isinstance(error, DeployInterruptedError)]
    if not causes:
        return known[0]
    return causes[0] if len(causes) == 1 else NodesFailedError(causes)
