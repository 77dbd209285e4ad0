"""Every node's report -> what to do with the pair; nothing here touches anything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from .facts import VERSION, Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .facts import Report

DOWN_ROUNDS: Final = 4
"""So many rounds a rank is seen down, all engines up, before it counts as down by itself."""


@dataclass(frozen=True)
class Decision:
    """What a round comes to: the memory from now on, words for the journal, start or not."""

    memory: Memory | None
    said: str
    start: bool = False
    down_rounds: int = 0


def decide(memory: Memory | None, reports: Sequence[Report], down_rounds: int = 0) -> Decision:
    """What to do with the pair, of which every node has reported, rank 0 first."""
    trouble = _trouble(reports)
    if trouble:
        return Decision(memory, trouble)
    generation = reports[0].generation
    if not generation:
        return Decision(None, "nothing is deployed")
    seen = seen_in(reports)
    if memory is None or memory.containers != seen.containers:
        words = "runs" if seen.up else "does not run on all nodes, and did not before"
        return Decision(seen, f"generation {generation} {words}")
    same_starts = seen.up and memory.started == seen.started
    if memory.engines == seen.engines or same_starts:
        return _in_operation(memory, seen, reports, down_rounds)
    if memory.up:
        changed = [node for node in seen.engines if memory.engines.get(node) != seen.engines[node]]
        words = f"engine or node restarted: {', '.join(changed)}"
        return Decision(memory, f"{words}; generation {generation} starts again", start=True)
    stays = f"generation {generation} was down before the restart, and stays down"
    return Decision(replace(seen, up=False), stays)


def _trouble(reports: Sequence[Report]) -> str:
    """Why nothing can be decided; empty if it can."""
    for report in reports:
        if report.version != VERSION:
            return (
                f"{report.node} has version {report.version} of this program: `inv boot --install`"
            )
        if report.problem:
            return f"waits for {report.node}: {report.problem}"
        if report.other:
            return f"{report.node} runs {report.other}, which is not current: nothing is started"
    if len({report.generation for report in reports}) > 1:
        found = ", ".join(f"{report.node} {report.generation or 'none'}" for report in reports)
        return f"the nodes have different generations ({found}): nothing is started; `inv deploy`"
    return ""


def seen_in(reports: Sequence[Report]) -> Memory:
    """The pair as the nodes report it."""
    return Memory(
        generation=reports[0].generation,
        containers={report.node: report.container for report in reports},
        engines={report.node: report.engine for report in reports},
        started={report.node: report.started for report in reports},
        up=all(report.running for report in reports),
    )


def _in_operation(
    memory: Memory, seen: Memory, reports: Sequence[Report], down_rounds: int
) -> Decision:
    """A round in which no restart explains what is seen: whatever ended, it stays so."""
    if seen.up:
        return Decision(seen, f"generation {seen.generation} runs")
    if not memory.up:
        return Decision(replace(seen, up=False), "")
    if down_rounds + 1 < DOWN_ROUNDS:
        return Decision(memory, "", down_rounds=down_rounds + 1)
    down = ", ".join(report.node for report in reports if not report.running)
    words = f"the rank on {down} has ended, by itself or a person: nothing is started"
    return Decision(replace(seen, up=False), words)
