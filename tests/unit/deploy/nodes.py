"""Nodes that are values: what applying does to them, and what goes wrong on demand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from builder import labels
from deploy import actions
from deploy.node_errors import EngineError
from deploy.scene import NodeScene
from deploy.state import (
    Completion,
    LogLine,
    NodeState,
    Outcome,
    RankIdentity,
    RankState,
)
from tests.unit.deploy.simulation import after

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from builder.progress import Progress
    from deploy.actions import AnyAction, PlaceModel, RestoreModel
    from deploy.scene import Socket
    from deploy.serving import ServingAddress
    from deploy.state import ContainerFacts
    from deploy.wanted import Wanted

STARTED = "2026-01-01T00:00:00.000000000Z"
WORDS = "2026-01-01T00:00:01.000000000Z"
ANSWER = Completion(Outcome.ANSWERED, " Paris", 1)


@dataclass
class FakeNode:
    """A node whose state is a value; a deploy.apply.Hands.

    `before` is called with every action before it is done, and may raise or wait. `replies` are
    given one after the other, the last one for ever.
    """

    goal: Wanted
    state: NodeState
    before: Callable[[AnyAction], None] = lambda _: None
    replies: list[Completion] = field(default_factory=lambda: [ANSWER])
    unreachable: bool = False
    done: list[AnyAction] = field(default_factory=list)
    restored: list[PlaceModel | RestoreModel] = field(default_factory=list)
    exits: dict[str, int] = field(default_factory=dict)
    logs: dict[str, tuple[LogLine, ...]] = field(default_factory=dict)

    def perform(self, action: AnyAction, progress: Progress, stopped: threading.Event) -> int:
        progress.advance(action.what, 1, 1)
        self._reach()
        self.before(action)
        if stopped.is_set() and isinstance(action, actions.SendModel | actions.PullImage):
            raise EngineError(self.state.node, "pull", "stopped")
        self.state = after(self.goal, self.state, action)
        self.done.append(action)
        return 1

    def restore_model(self, action: PlaceModel | RestoreModel) -> None:
        self._reach()
        self.restored.append(action)

    def start(self, name: str) -> None:
        self._reach()
        self._set(name, running=True)

    def stop(self, name: str) -> None:
        self._reach()
        self._set(name, running=False)

    def rename(self, name: str, new_name: str) -> None:
        self._reach()
        renamed = (replace(c, name=new_name) if c.name == name else c for c in self.containers)
        self.state = replace(self.state, containers=tuple(renamed))

    @property
    def containers(self) -> tuple[ContainerFacts, ...]:
        return self.state.containers

    def remove(self, name: str) -> None:
        self._reach()
        kept = tuple(item for item in self.state.containers if item.name != name)
        self.state = replace(self.state, containers=kept)

    def rank(self, name: str) -> RankState:
        self._reach()
        (found,) = [item for item in self.state.containers if item.name == name]
        code = self.exits.get(name)
        own = {labels.GENERATION: str(found.generation), labels.RANK: str(found.rank)}
        own |= {labels.LOCK_DIGEST: found.lock_digest, labels.SPEC_DIGEST: found.spec_digest}
        own |= {labels.CLUSTER: self.goal.manifest.name, labels.MODEL_DIGEST: found.model_digest}
        return RankState(
            running=found.running and code is None,
            exit_code=code or 0,
            finished_at="",
            out_of_memory=code == 137,
            identity=RankIdentity(found.id, found.image_id, tuple(sorted(own.items())), STARTED),
            command=found.command,
            log_from=STARTED,
        )

    def log_since(self, name: str, after: str, tail: int) -> tuple[LogLine, ...]:
        assert tail > 0
        lines = self.logs.get(name, (LogLine(WORDS, f"the last words of {name}"),))
        return tuple(line for line in lines if line.at > after)

    def sockets(self) -> tuple[Socket, ...]:
        self._reach()
        return ()

    def look(self, container_id: str) -> NodeScene:
        self._reach()
        assert container_id
        return NodeScene()

    def answers(self, at: ServingAddress) -> bool:
        assert at.port == self.goal.manifest.serve.port
        if self.replies[0].outcome is not Outcome.NOT_UP:
            return True
        if len(self.replies) > 1:
            self.replies.pop(0)
        return False

    def complete(self, timeout_s: float, at: ServingAddress | None = None) -> Completion:
        assert timeout_s > 0
        assert at is not None
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

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
