"""What preflight's tests share: nodes with one thing changed, and what is found on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deploy.preflight import preflight
from tests.unit.deploy.clusters import HOST, empty, wanted

if TYPE_CHECKING:
    from deploy.preflight import Finding
    from deploy.state import NodeState
    from deploy.wanted import Wanted

GOAL = wanted()
A, B = "spark-a", "spark-b"
BOTH = (A, B)


def states_with(
    goal: Wanted = GOAL,
    nodes: tuple[str, ...] = (A,),
    **host: Any,  # noqa: ANN401 - any field
) -> dict[str, NodeState]:
    """All nodes healthy, but for fields of the machine of some."""
    states = empty(goal)
    for node in nodes:
        states[node] = replace(states[node], host=replace(HOST, **host))
    return states


def node_with(goal: Wanted = GOAL, node: str = A, **state: Any) -> dict[str, NodeState]:  # noqa: ANN401
    """All nodes healthy, but for fields of one."""
    states = empty(goal)
    states[node] = replace(states[node], **state)
    return states


def told(states: dict[str, NodeState], goal: Wanted = GOAL) -> list[tuple[str, str, str]]:
    """Level, row and what is wrong, of every finding."""
    found = preflight(goal, states)
    return [(item.level.name, item.row, item.message.what) for item in found]


def the_one(states: dict[str, NodeState], goal: Wanted = GOAL) -> Finding:
    """The only finding."""
    (found,) = preflight(goal, states)
    return found
