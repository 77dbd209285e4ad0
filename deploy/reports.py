"""What the verbs of deploy/ come to: values that a person and a script can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deploy.actions import size_text
from deploy.state import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from builder.digest import JsonValue
    from builder.errors import SparklockError
    from builder.privileges import Weakening
    from deploy.actions import Plan
    from deploy.delivery import Delivered
    from deploy.halfway import HalfState
    from deploy.preflight.finding import Finding
    from deploy.state import ContainerFacts, EngineFacts


STANDING: Final = {
    Standing.CURRENT: "",
    Standing.TRIAL: ", not confirmed",
    Standing.FAILED: ", failed and left for inspection",
    Standing.OLD: ", kept for rollback",
}


def warned(warnings: Sequence[Finding]) -> str:
    """That preflight has something to tell, in one line."""
    count = "1 warning" if len(warnings) == 1 else f"{len(warnings)} warnings"
    first = warnings[0].message
    more = "" if len(warnings) == 1 else ", and more"
    return f"preflight: {count}, inv doctor shows them ({first.place}: {first.what}{more})"


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What `deploy` would do, and why; `warnings` are what preflight found and goes on with."""

    cluster: str
    plan: Plan
    weakenings: tuple[Weakening, ...] = ()
    warnings: tuple[Finding, ...] = ()

    @property
    def up_to_date(self) -> bool:
        """Whether `deploy` would change nothing."""
        return self.plan.up_to_date

    def text(self) -> str:
        """The plan as lines of plain text, phase by phase; what weakens the default comes last."""
        weaker = (weakening.text for weakening in self.weakenings)
        told = [warned(self.warnings)] if self.warnings else []
        return "\n".join([f"{self.cluster}: {self.plan.text()}", *weaker, *told])

    def as_json(self) -> dict[str, JsonValue]:
        """The plan as a JSON object."""
        return {
            "cluster": self.cluster,
            **self.plan.as_json(),
            "weakenings": [weakening.as_json() for weakening in self.weakenings],
            "warnings": [finding.as_json() for finding in self.warnings],
        }


@dataclass(frozen=True, slots=True)
class DeployReport:
    """What a deploy did; `sent_bytes` is what travelled to each node, `answer` the completion.

    `answer` is empty when the pair that serves was confirmed by an earlier deploy. `deliveries` are
    the ways that the image took, by node; `detours` tell, by node, what did not go as planned.
    """

    cluster: str
    generation: int
    plan: Plan
    sent_bytes: tuple[tuple[str, int], ...]
    answer: str
    deliveries: tuple[tuple[str, Delivered], ...] = ()
    detours: tuple[tuple[str, str], ...] = ()
    weakenings: tuple[Weakening, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return not self.plan.up_to_date

    def text(self) -> str:
        """What was done as lines of plain text."""
        if not self.changed:
            return f"{self.cluster}: {self.plan.text()}; nothing was changed"
        sent = ", ".join(f"{size_text(size)} to {node}" for node, size in self.sent_bytes)
        lines = [f"{self.cluster}: generation {self.generation} serves", f"  sent    {sent}"]
        for node, item in self.deliveries:
            lines.append(f"  image   {node}: {item.way.value}, {size_text(item.size_bytes)}")
        lines += [f"  note    {node}: {detour}" for node, detour in self.detours]
        lines += [f"  note    {weakening.text}" for weakening in self.weakenings]
        if self.answer:
            lines.append(f"  answer  {self.answer.strip()!r}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, JsonValue]:
        """What was done as a JSON object."""
        return {
            "cluster": self.cluster,
            "changed": self.changed,
            "generation": self.generation,
            "sent_bytes": dict(self.sent_bytes),
            "deliveries": {
                node: {"way": item.way.name.lower(), "sent_bytes": item.size_bytes}
                for node, item in self.deliveries
            },
            "detours": [{"node": node, "what": detour} for node, detour in self.detours],
            "weakenings": [weakening.as_json() for weakening in self.weakenings],
            "answer": self.answer,
            "plan": self.plan.as_json(),
        }


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What runs on one node."""

    node: str
    engine: EngineFacts
    containers: tuple[ContainerFacts, ...]

    def lines(self) -> Iterator[str]:
        """The node and its containers as lines of plain text."""
        engine = self.engine
        yield f"{self.node}  Docker {engine.version}, {engine.store.value}, {engine.platform}"
        width = max((len(item.name) for item in self.containers), default=0)
        for item in sorted(self.containers, key=_interest):
            state = f"{_state(item)}{STANDING[item.standing]}"
            yield f"  rank {item.rank}  {item.name:{width}}  {state}"
        if not self.containers:
            yield "  no container of this cluster"

    def as_json(self) -> dict[str, JsonValue]:
        """The node and its containers as a JSON object."""
        return {
            "node": self.node,
            "engine": {
                "version": self.engine.version,
                "store": self.engine.store.value,
                "platform": self.engine.platform,
            },
            "containers": [_container(item) for item in self.containers],
        }


def _container(item: ContainerFacts) -> dict[str, JsonValue]:
    return {
        "name": item.name,
        "rank": item.rank,
        "generation": item.generation,
        "running": item.running,
        "paused": item.paused,
        "confirmed": item.standing.confirmed,
        "standing": item.standing.name.lower(),
        "exit_code": None if item.running else item.exit_code,
        "image": item.image_id,
        "lock_digest": item.lock_digest,
        "spec_digest": item.spec_digest,
    }


@dataclass(frozen=True, slots=True)
class StatusReport:
    """What runs on all nodes, and whether it is what the lock says.

    `failure` is why some of the nodes could not be asked; then there is no plan. `halves` is what
    was left half done, and `made_from` the lock of the current generation if that is another one.
    """

    cluster: str
    nodes: tuple[NodeStatus, ...]
    plan: Plan | None
    failure: SparklockError | None = None
    halves: tuple[HalfState, ...] = ()
    made_from: str = ""

    @property
    def up_to_date(self) -> bool:
        """Whether every rank of the locked pair runs and was confirmed."""
        return self.plan is not None and self.plan.up_to_date

    def text(self) -> str:
        """The status as lines of plain text."""
        lines = [line for node in self.nodes for line in node.lines()]
        halves = (f"  to do  {half.text()}" for half in self.halves)
        return "\n".join([*lines, f"{self.cluster}: {self._verdict()}", *halves])

    def _verdict(self) -> str:
        if self.plan is None:
            return "unknown, since not every node could be asked"
        if self.plan.up_to_date:
            same = f" (made from lock {self.made_from}, which asks for the same containers)"
            return self.plan.text() + (same if self.made_from else "")
        standings = {item.standing for node in self.nodes for item in node.containers}
        if not standings:
            return "nothing is deployed; inv deploy does it"
        if standings == {Standing.OLD}:
            return "nothing is current; inv deploy, or inv rollback to a generation that is kept"
        made = f" (what is current was made from lock {self.made_from})"
        return "not as locked; inv plan says why" + (made if self.made_from else "")

    def as_json(self) -> dict[str, JsonValue]:
        """The status as a JSON object."""
        return {
            "cluster": self.cluster,
            "up_to_date": self.up_to_date,
            "nodes": [node.as_json() for node in self.nodes],
            "half_done": [half.as_json() for half in self.halves],
            "made_from": self.made_from or None,
            "failures": _failures(self.failure),
        }


@dataclass(frozen=True, slots=True)
class StopReport:
    """The containers that were stopped or removed, as (node, container name); images stay.

    `failure` is why those of some nodes were not. `served` is the generation that was to serve, 0
    if none of it was found.
    """

    cluster: str
    containers: tuple[tuple[str, str], ...]
    removed: bool
    failure: SparklockError | None = None
    served: int = 0

    def text(self) -> str:
        """What was stopped or removed as lines of plain text."""
        if not self.containers:
            where = "" if self.failure is None else " on the nodes in reach"
            nothing = "nothing was deployed" if self.removed else "nothing ran"
            return f"{self.cluster}: {nothing}{where}"
        done = "removed, images and model files stay" if self.removed else self._stopped()
        lines = [f"  {node}  {name}" for node, name in self.containers]
        return "\n".join([f"{self.cluster}: {done}", *lines])

    def _stopped(self) -> str:
        """That they were stopped, and the command that starts the same ones again."""
        if not self.served:
            return "stopped; inv deploy brings a pair that serves"
        number = self.served
        return f"stopped; inv rollback {number}, or inv deploy of the same lock, starts it again"

    def as_json(self) -> dict[str, JsonValue]:
        """What was stopped or removed as a JSON object."""
        named: list[JsonValue] = [{"node": node, "container": n} for node, n in self.containers]
        return {
            "cluster": self.cluster,
            "stopped": [] if self.removed else named,
            "removed": named if self.removed else [],
            "failures": _failures(self.failure),
        }


def _failures(failure: SparklockError | None) -> JsonValue:
    """The messages of a failure as JSON objects."""
    return [] if failure is None else [message.as_json() for message in failure.messages]


@dataclass(frozen=True, slots=True)
class RankLog:
    """The end of one container's log, as it was written."""

    node: str
    container: str
    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class LogsReport:
    """The end of every container's log, by generation, head first.

    `kept` are the generations that are there and not shown; `failure` is why some nodes are not.
    """

    cluster: str
    logs: tuple[RankLog, ...]
    kept: tuple[int, ...] = ()
    failure: SparklockError | None = None

    def text(self) -> str:
        """The logs, each under a line that names node, rank and container."""
        if not self.logs and self.kept:
            return f"{self.cluster}: no log; inv logs --generation {max(self.kept)} shows one kept"
        if not self.logs:
            where = "" if self.failure is None else " on the nodes in reach"
            return f"{self.cluster}: nothing is deployed{where}"
        return "\n".join(
            f"==> {log.node}, rank {log.rank}, {log.container}\n{log.text.rstrip()}"
            for log in self.logs
        )

    def as_json(self) -> dict[str, JsonValue]:
        """The logs as a JSON object."""
        logs: list[JsonValue] = [
            {"node": log.node, "container": log.container, "rank": log.rank, "text": log.text}
            for log in self.logs
        ]
        return {"cluster": self.cluster, "logs": logs, "failures": _failures(self.failure)}


def _interest(item: ContainerFacts) -> tuple[bool, int, int]:
    """What a reader looks for first: what is not superseded, then the newest, then rank 0."""
    return (item.standing is Standing.OLD, -item.generation, item.rank)


def _state(item: ContainerFacts) -> str:
    if item.paused:
        return "paused"
    return "runs" if item.running else f"stopped, exit code {item.exit_code}"
