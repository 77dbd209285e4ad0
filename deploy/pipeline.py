"""The verbs of deploy/, one function each: they wire planning and applying to the edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from builder.digest import JsonValue
    from builder.progress import Progress
    from deploy.actions import Plan
    from deploy.state import ContainerFacts, EngineFacts


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What `deploy` would do, and why."""

    cluster: str
    plan: Plan

    @property
    def up_to_date(self) -> bool:
        """Whether `deploy` would change nothing."""
        return not self.plan.actions

    def text(self) -> str:
        """The plan as lines of plain text, node by node."""
        raise NotImplementedError

    def as_json(self) -> dict[str, JsonValue]:
        """The plan as a JSON object."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class DeployReport:
    """What a deploy did; `sent_bytes` is what each node fetched: model files and image layers."""

    cluster: str
    generation: int
    plan: Plan
    sent_bytes: tuple[tuple[str, int], ...]
    answer: str

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(self.plan.actions)

    def text(self) -> str:
        """What was done as lines of plain text."""
        raise NotImplementedError

    def as_json(self) -> dict[str, JsonValue]:
        """What was done as a JSON object."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What runs on one node."""

    node: str
    engine: EngineFacts
    containers: tuple[ContainerFacts, ...]


@dataclass(frozen=True, slots=True)
class StatusReport:
    """What runs on all nodes, and whether it is what the lock says."""

    cluster: str
    nodes: tuple[NodeStatus, ...]
    plan: Plan

    @property
    def up_to_date(self) -> bool:
        """Whether every rank of the locked pair runs and was confirmed."""
        return not self.plan.actions

    def text(self) -> str:
        """The status as lines of plain text."""
        raise NotImplementedError

    def as_json(self) -> dict[str, JsonValue]:
        """The status as a JSON object."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StopReport:
    """The containers that were removed, as (node, container name); images stay."""

    cluster: str
    removed: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """What was removed as lines of plain text."""
        raise NotImplementedError

    def as_json(self) -> dict[str, JsonValue]:
        """What was removed as a JSON object."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class RankLog:
    """The end of one container's log, as it was written."""

    node: str
    container: str
    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class LogsReport:
    """The end of every container's log, head first."""

    cluster: str
    logs: tuple[RankLog, ...]

    def text(self) -> str:
        """The logs, each under a line that names node, rank and container."""
        raise NotImplementedError

    def as_json(self) -> dict[str, JsonValue]:
        """The logs as a JSON object."""
        raise NotImplementedError


def plan(file: Path) -> PlanReport:
    """What deploy would do on each node, changing nothing; PreflightError if a node cannot."""
    raise NotImplementedError


def deploy(file: Path, progress: Progress) -> DeployReport:
    """Bring the locked image and model to every node, switch to it, and see it answer.

    `file` is the manifest; lockfile.json and .sparklock/ lie beside it. On any failure, and when
    interrupted, everything this call made is removed and the old pair started again; the error
    says what was restored.
    """
    raise NotImplementedError


def status(file: Path) -> StatusReport:
    """What runs on each node now, compared with the lock."""
    raise NotImplementedError


def stop(file: Path) -> StopReport:
    """Stop and remove every container of this cluster; images and model stay."""
    raise NotImplementedError


def logs(file: Path, *, tail: int) -> LogsReport:
    """The last `tail` lines of every rank's log."""
    raise NotImplementedError
