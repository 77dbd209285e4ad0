"""Running a plan on the nodes, phase by phase, and undoing it when it fails.

Up to the confirmation every failure, Ctrl-C included, ends with the nodes as they were. After it
the new pair serves, and nothing is undone any more.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from builder.errors import SparklockError
from deploy.actions import TIDYING, Confirm, CreateContainer
from deploy.confirm import Watched, confirm
from deploy.errors import (
    CleanupFailedError,
    DeployFailedError,
    DeployInterruptedError,
)
from deploy.node_errors import EngineConflictError
from deploy.together import together
from deploy.undo import undone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from builder.progress import Progress
    from deploy.actions import AnyAction, PlaceModel, Plan, RestoreModel, Step
    from deploy.errors import Rollback
    from deploy.undo import Means


class Hands(Watched, Protocol):
    """What applying needs of one node."""

    def perform(self, action: AnyAction, progress: Progress, stopped: threading.Event) -> int:
        """Do one action and return the bytes that travelled for it."""

    def restore_model(self, action: PlaceModel | RestoreModel) -> None:
        """Put replaced model files back: undo a placing, however far it came, or an earlier one."""

    def start(self, name: str) -> None:
        """Start a container; nothing if it runs."""

    def stop(self, name: str) -> None:
        """Stop a container; nothing if it does not run, or is gone."""

    def remove(self, name: str) -> None:
        """Remove a container; nothing if it is gone."""

    def rename(self, name: str, new_name: str) -> None:
        """Give a container another name; nothing if it is gone."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a plan came to: the completion that confirmed it, and bytes sent by node."""

    answer: str
    sent_bytes: Mapping[str, int]


def apply(plan: Plan, means: Means, *, leave_failed: bool = False) -> Applied:
    """Run a plan; DeployFailedError tells the cause and what was restored.

    With `leave_failed` ranks that were started and failed stay as they are, under a name that says
    so, and nothing is restored. CleanupFailedError when the new pair serves and only the tidying
    failed.
    """
    means.interrupts.defer()
    run = _Run(plan, means)
    try:
        for step in plan.steps:
            run.step(step)
    except SparklockError as error:
        if run.confirmed:
            raise CleanupFailedError(error, plan) from error
        undone = run.undo(leave_failed=leave_failed)
        raise DeployFailedError(error, undone, plan) from error
    except BaseException:
        if not run.confirmed:
            run.undo(leave_failed=False)
        raise
    return Applied(run.answer, run.sent_bytes)


class _Run:
    """One run of a plan, with what it began."""

    def __init__(self, plan: Plan, means: Means) -> None:
        self.answer = ""
        self.confirmed = False
        self.sent_bytes = dict.fromkeys(means.nodes, 0)
        self._plan = plan
        self._means = means
        self._nodes = means.nodes
        self._progress = means.progress
        self._stopped = means.interrupts.stopped
        self._begun: list[AnyAction] = []
        self._lock = threading.Lock()

    def step(self, step: Step) -> None:
        """All actions of one phase: on each node in their order, on all nodes at once."""
        self._progress.stage(step.phase.value)
        self.confirmed = self.confirmed or step.phase in TIDYING
        by_node: dict[str, list[AnyAction]] = defaultdict(list)
        for action in step.actions:
            if isinstance(action, Confirm):
                self._confirm(action)
            else:
                by_node[action.node].append(action)
        tasks = {node: partial(self._on_node, node, by_node[node]) for node in by_node}
        together(tasks, on_failure=self._stopped.set)

    def _confirm(self, action: Confirm) -> None:
        answer = confirm(
            action.ranks,
            self._nodes,
            self._means.limits,
            self._stopped,
            told=self._progress.note,
            created=self._created(),
        )
        self.confirmed = True
        self.answer = answer.text

    def _created(self) -> dict[tuple[str, str], dict[str, str]]:
        """The labels of the containers that this plan created, by node and name."""
        made = (action for action in self._plan.actions if isinstance(action, CreateContainer))
        return {(action.node, action.name): dict(action.labels) for action in made}

    def _on_node(self, node: str, actions: Sequence[AnyAction]) -> None:
        for action in actions:
            if self._stopped.is_set() and not self.confirmed:
                raise DeployInterruptedError
            self._progress.note(f"{node}: {action.what}")
            with self._lock:
                self._begun.append(action)
            try:
                sent = self._nodes[node].perform(action, self._progress, self._stopped)
                self.sent_bytes[node] += sent
            except EngineConflictError:
                # The name is somebody else's container, which rolling back must not remove.
                with self._lock:
                    self._begun.remove(action)
                raise

    def undo(self, *, leave_failed: bool) -> Rollback:
        """Undo what was begun, and have the old pair serve; what could not be done is told."""
        return undone(self._plan, tuple(self._begun), self._means, leave_failed=leave_failed)
