"""Undoing what a failed plan began, and seeing whether the old pair serves again.

What comes out is told as what it was: restored and answering, restored and silent, not restorable,
or left for inspection.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from builder.errors import SparklockError
from deploy.actions import CreateContainer, PlaceModel, StartContainer, StopContainer
from deploy.confirm import Limits, confirm
from deploy.errors import (
    DeployInterruptedError,
    OldPairDownError,
    Outcome,
    Rollback,
)
from deploy.stages import LATE_ANSWERS
from deploy.state import Standing
from deploy.together import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from builder.progress import Progress
    from deploy.actions import AnyAction, Plan, Restore, RestoreModel
    from deploy.apply import Hands
    from deploy.interrupts import Interrupts


@dataclass(frozen=True, slots=True)
class Means:
    """What a plan is applied and undone with; `limits` are for the old pair, too."""

    nodes: Mapping[str, Hands]
    limits: Limits
    progress: Progress
    interrupts: Interrupts


def undone(plan: Plan, begun: Sequence[AnyAction], means: Means, *, leave_failed: bool) -> Rollback:
    """What undoing the actions that were begun came to; raises for bugs alone."""
    undo = _Undoing(plan, begun, means.nodes)
    progress, interrupts = means.progress, means.interrupts
    started = any(isinstance(action, StartContainer) for action in begun)
    interrupts.stopped.set()  # a signal from now on is a wish to wait for nothing any more
    if leave_failed and started and not interrupts.signalled:
        progress.stage("leave the failed ranks for inspection")
        undo.name_failed()
        return undo.rollback(Outcome.LEFT)
    progress.stage("roll back")
    undo.take_away()
    restore = plan.restore
    if not restore.ranks:
        return undo.rollback(Outcome.IMPOSSIBLE if restore.why_not else Outcome.NOTHING_BEFORE)
    if undo.failures:
        return undo.rollback(undo.leave_down())
    undo.start_old()
    if undo.failures:
        undo.stop_old()
        return undo.rollback(undo.leave_down())
    progress.stage(f"wait until generation {restore.generation} answers")
    return undo.rollback(*_answer(plan.restore, means, patient=undo.again))


def _answer(old: Restore, means: Means, *, patient: bool) -> tuple[Outcome, SparklockError | None]:
    """Whether the old pair answers: one that never stopped has no start to wait for."""
    limits, told = means.limits, means.progress.note
    wait = limits if patient else Limits(LATE_ANSWERS * limits.completion_s, limits.completion_s)
    try:
        confirm(old.ranks, means.nodes, wait, means.interrupts.hurried, told=told)
    except DeployInterruptedError:
        return Outcome.UNASKED, None
    except SparklockError as error:
        return Outcome.SILENT, error
    return Outcome.ANSWERS, None


class _Undoing:
    """What is undone, node by node, each thing tried whatever became of the others."""

    def __init__(self, plan: Plan, begun: Sequence[AnyAction], nodes: Mapping[str, Hands]) -> None:
        self.failures: list[SparklockError] = []
        self._done: list[str] = []
        self._undone: list[str] = []
        self._failed_nodes: set[str] = set()
        self._tasks: dict[str, list[tuple[str, Callable[[], None]]]] = defaultdict(list)
        self._plan = plan
        self._begun = begun
        self._nodes = nodes
        stopped = any(isinstance(action, StopContainer) for action in begun)
        self.again = stopped or plan.restore.restarts

    def take_away(self) -> None:
        """Remove what the plan created, stop what else it started, and put model files back."""
        created = [(a.node, a.name) for a in self._begun if isinstance(a, CreateContainer)]
        created += self._plan.discard
        for node, name in created:
            self._task(node, f"removed {name}", partial(self._nodes[node].remove, name))
        for action in self._begun:
            if isinstance(action, StartContainer) and (action.node, action.name) not in created:
                stop = partial(self._nodes[action.node].stop, action.name)
                self._task(action.node, f"stopped {action.name}", stop)
        self._run()
        for action in self._begun:
            if isinstance(action, PlaceModel):
                self._restore_model(action)
        self._run()
        for action in self._plan.restore.model:
            self._restore_model(action)
        self._run()

    def _restore_model(self, action: PlaceModel | RestoreModel) -> None:
        restore = partial(self._nodes[action.node].restore_model, action)
        self._task(action.node, f"put the model files back in {action.folder}", restore)

    def name_failed(self) -> None:
        """Give what the plan created a name that says that it failed."""
        for action in self._begun:
            if isinstance(action, CreateContainer):
                name = action.name.removesuffix(Standing.TRIAL.value) + Standing.FAILED.value
                rename = partial(self._nodes[action.node].rename, action.name, name)
                self._task(action.node, f"left {name}", rename)
        self._run()

    def start_old(self) -> None:
        """Have the old pair run: its workers first, then its head."""
        head, workers = self._plan.restore.ranks[:1], self._plan.restore.ranks[1:]
        words = "started {} again" if self.again else "left {} running"
        for part in (workers, head):
            for node, name in part:
                self._task(node, words.format(name), partial(self._nodes[node].start, name))
            self._run()

    def stop_old(self) -> None:
        """Stop what was started of the old pair, since the rest of it cannot be."""
        for node, name in self._plan.restore.ranks if self.again else ():
            self._task(node, f"stopped {name}", partial(self._nodes[node].stop, name))
        self._run()

    def leave_down(self) -> Outcome:
        """What it means that a node cannot be used: one rank alone serves nothing."""
        if not self.again:
            return Outcome.UNTOUCHED
        self.failures.append(OldPairDownError(sorted(self._failed_nodes)))
        return Outcome.DOWN

    def rollback(self, outcome: Outcome, silent: SparklockError | None = None) -> Rollback:
        """All that became of it."""
        return Rollback(
            outcome,
            self._plan.restore,
            tuple(self._done),
            tuple(self.failures),
            started_again=self.again,
            silent=silent,
            undone=tuple(self._undone),
        )

    def _task(self, node: str, what: str, undo: Callable[[], None]) -> None:
        """Add a thing to undo, with the words for it when it is done."""
        self._tasks[node].append((what, undo))

    def _run(self) -> None:
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
                self._failed_nodes.add(node)
                self._undone.append(f"{node}: not yet {what}")
            else:
                self._done.append(f"{node}: {what}")
