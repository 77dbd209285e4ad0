"""Nodes that are values: what applying does to them, and what goes wrong on demand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from deploy import actions
from deploy.node_errors import EngineError
from deploy.state import Completion, NodeState, Outcome, RankState
from tests.unit.deploy.simulation import after

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from builder.progress import Progress
    from deploy.actions import AnyAction, PlaceModel
    from deploy.wanted import Wanted

ANSWER = Completion(Outcome.ANSWERED, " Paris", 1)


@dataclass
class FakeNode:
    """A node whose state is a value; a deploy.apply.Hands.

    `before` is called with every action before it is done, and may raise or wait. `answers` are
    given one after the other, the last one for ever.
    """

    goal: Wanted
    state: NodeState
    before: Callable[[AnyAction], None] = lambda _: None
    answers: list[Completion] = field(default_factory=lambda: [ANSWER])
    unreachable: bool = False
    done: list[AnyAction] = field(default_factory=list)
    restored: list[PlaceModel] = field(default_factory=list)
    exits: dict[str, int] = field(default_factory=dict)

    def perform(self, action: AnyAction, progress: Progress, stopped: threading.Event) -> int:
        progress.advance(action.what, 1, 1)
        self._reach()
        self.before(action)
        if stopped.is_set() and isinstance(action, actions.SendModel | actions.PullImage):
            raise EngineError(self.state.node, "pull", "stopped")
        self.state = after(self.goal, self.state, action)
        self.done.append(action)
        return 1

    def restore_model(self, action: PlaceModel) -> None:
        self._reach()
        self.restored.append(action)

    def start(self, name: str) -> None:
        self._reach()
        self._set(name, running=True)

    def remove(self, name: str) -> None:
        self._reach()
        kept = tuple(item for item in self.state.containers if item.name != name)
        self.state = replace(self.state, containers=kept)

    def rank(self, name: str) -> RankState:
        self._reach()
        (found,) = [item for item in self.state.containers if item.name == name]
        code = self.exits.get(name)
        return RankState(found.running and code is None, code or 0, "", out_of_memory=code == 137)

    def log(self, name: str) -> str:
        return f"the last words of {name}"

    def complete(self, timeout_s: float) -> Completion:
        assert timeout_s > 0
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def running(self) -> list[str]:
        return [item.name for item in self.state.containers if item.running]

    def _set(self, name: str, *, running: bool) -> None:
        containers = tuple(
            replace(item, running=running) if item.name == name else item
            for item in self.state.containers
        )
        self.state = replace(self.state, containers=containers)

    def _reach(self) -> None:
        if self.unreachable:
            raise EngineError(self.state.node, "answer", "no route")
