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
from deploy.actions import Confirm, CreateContainer, PlaceModel, StopContainer
from deploy.confirm import Watched, confirm
from deploy.errors import (
    CleanupFailedError,
    DeployFailedError,
    DeployInterruptedError,
    OldPairDownError,
    Rollback,
)
from deploy.node_errors import EngineConflictError
from deploy.together import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from builder.progress import Progress
    from deploy.actions import AnyAction, Plan, Step
    from deploy.confirm import Limits
    from deploy.interrupts import Interrupts


class Hands(Watched, Protocol):
    """What applying needs of one node."""

    def perform(self, action: AnyAction, progress: Progress, stopped: threading.Event) -> int:
        """Do one action and return the bytes that travelled for it."""

    def restore_model(self, action: PlaceModel) -> None:
        """Undo the placing of model files, however far it came."""

    def start(self, name: str) -> None:
        """Start a container; nothing if it runs."""

    def remove(self, name: str) -> None:
        """Remove a container; nothing if it is gone."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a plan came to: the completion that confirmed it, and bytes sent by node."""

    answer: str
    sent_bytes: Mapping[str, int]


def apply(
    plan: Plan,
    nodes: Mapping[str, Hands],
    limits: Limits,
    progress: Progress,
    interrupts: Interrupts,
) -> Applied:
    """Run a plan; DeployFailedError tells the cause and what was restored.

    CleanupFailedError when the new pair serves and only the tidying failed.
    """
    interrupts.defer()
    run = _Run(plan, nodes, limits, progress, interrupts.stopped)
    try:
        for step in plan.steps:
            run.step(step)
    except SparklockError as error:
        if run.confirmed:
            raise CleanupFailedError(error) from error
        raise DeployFailedError(error, run.roll_back()) from error
    except BaseException:
        if not run.confirmed:
            run.roll_back()
        raise
    return Applied(run.answer, run.sent_bytes)


class _Run:
    """One run of a plan, with what it began."""

    def __init__(
        self,
        plan: Plan,
        nodes: Mapping[str, Hands],
        limits: Limits,
        progress: Progress,
        stopped: threading.Event,
    ) -> None:
        self.answer = ""
        self.confirmed = False
        self.sent_bytes = dict.fromkeys(nodes, 0)
        self._plan = plan
        self._nodes = nodes
        self._limits = limits
        self._progress = progress
        self._stopped = stopped
        self._begun: list[AnyAction] = []
        self._lock = threading.Lock()

    def step(self, step: Step) -> None:
        """All actions of one phase: on each node in their order, on all nodes at once."""
        self._progress.stage(step.phase.value)
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
            self._limits,
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

    def roll_back(self) -> Rollback:
        """Undo what was begun, and have the old pair run; what could not be done is told."""
        self._progress.stage("roll back")
        undo = _Undo()
        created = [(a.node, a.name) for a in self._begun if isinstance(a, CreateContainer)]
        for node, name in (*created, *self._plan.discard):
            undo.task(node, f"removed {name}", partial(self._nodes[node].remove, name))
        undo.run()
        for action in self._begun:
            if isinstance(action, PlaceModel):
                restore = partial(self._nodes[action.node].restore_model, action)
                undo.task(action.node, f"put the model files back in {action.folder}", restore)
        undo.run()
        stopped = any(isinstance(action, StopContainer) for action in self._begun)
        again = stopped or self._plan.restarts
        serving = self._restore_pair(undo, again=again)
        return Rollback(tuple(undo.done), serving, tuple(undo.failures), started_again=again)

    def _restore_pair(self, undo: _Undo, *, again: bool) -> tuple[str, ...]:
        """Have the old pair run, all of it or, when a node cannot be used, nothing of it."""
        head, workers = self._plan.restore[:1], self._plan.restore[1:]
        if undo.failures and head:
            if again:
                undo.failures.append(OldPairDownError(sorted(undo.failed_nodes)))
            return ()
        words = "started {} again" if again else "left {} running"
        for part in (workers, head):
            for node, name in part:
                undo.task(node, words.format(name), partial(self._nodes[node].start, name))
            undo.run()
        return tuple(f"{node}: {name}" for node, name in self._plan.restore)


class _Undo:
    """Things to undo, node by node, each tried whatever became of the others."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failures: list[SparklockError] = []
        self.failed_nodes: set[str] = set()
        self._tasks: dict[str, list[tuple[str, Callable[[], None]]]] = defaultdict(list)

    def task(self, node: str, what: str, undo: Callable[[], None]) -> None:
        """Add a thing to undo, with the words for it when it is done."""
        self._tasks[node].append((what, undo))

    def run(self) -> None:
        """Undo what was added, all nodes at once."""
        tasks = {node: partial(self._on_node, node, todo) for node, todo in self._tasks.items()}
        self._tasks = defaultdict(list)
        together(tasks)

    def _on_node(self, node: str, todo: Iterable[tuple[str, Callable[[], None]]]) -> None:
        for what, undo in todo:
            try:
                undo()
            except SparklockError as error:
                self.failures.append(error)
                self.failed_nodes.add(node)
            else:
                self.done.append(f"{node}: {what}")
