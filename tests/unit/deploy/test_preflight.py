from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, Any

import pytest

from deploy.preflight import errors_of, preflight
from deploy.state import Listener, ModelObstacle, NetdevFacts
from tests.unit.deploy.clusters import (
    container,
    empty,
    fit,
    serving,
    wanted,
)

if TYPE_CHECKING:
    from builder.errors import Message
    from deploy.state import NodeState
    from deploy.wanted import Wanted

GOAL = wanted()
A, B = "spark-a", "spark-b"
LOOPBACK = (NetdevFacts("lo", 65536, (), ("LOOPBACK", "UP")),)


def found(states: dict[str, NodeState]) -> list[tuple[str, str]]:
    return [(message.place, message.what) for message in problems(GOAL, states)]


def problems(goal: Wanted, states: dict[str, NodeState]) -> tuple[Message, ...]:
    return errors_of(preflight(goal, states))


def on(node: str, **changes: Any) -> dict[str, NodeState]:  # noqa: ANN401 - any field
    states = empty(GOAL)
    states[node] = replace(states[node], **changes)
    return states


def with_hca(node: str, **changes: Any) -> dict[str, NodeState]:  # noqa: ANN401 - any field
    first, second = empty(GOAL)[node].hcas
    return on(node, hcas=(replace(first, **changes), second))


def test_healthy_nodes_have_no_problem_empty_or_serving() -> None:
    assert found(empty(GOAL)) == []
    assert found(serving(GOAL)) == []


@pytest.mark.parametrize(
    ("states", "place", "what"),
    [
        (
            with_hca(A, state="1: DOWN"),
            "node spark-a, rocep1s0f0",
            "the RoCE port is not up",
        ),
        (
            with_hca(B, link_layer="InfiniBand"),
            "node spark-b, rocep1s0f0",
            "the port does not speak RoCE",
        ),
        (
            with_hca(A, rate_gbit_s=100),
            "node spark-a, rocep1s0f0",
            "the port is slower than the manifest says",
        ),
        (
            with_hca(A, netdevs=("enp1s0f1np1",)),
            "node spark-a, rocep1s0f0",
            "the RDMA device belongs to another interface",
        ),
        (
            on(B, hcas=empty(GOAL)[B].hcas[:1]),
            "node spark-b, roceP2p1s0f0",
            "the RDMA device is not there",
        ),
        (
            on(B, netdevs=empty(GOAL)[B].netdevs[1:]),
            "node spark-b, enp1s0f0np0",
            "the interface does not have its address",
        ),
        (
            on(A, engine=replace(empty(GOAL)[A].engine, platform="linux/amd64")),
            "node spark-a",
            "the node has another processor than the image",
        ),
        (
            on(A, listeners=(Listener("127.0.0.1", 8000),)),
            "node spark-a, TCP port 8000",
            "something else listens on the port",
        ),
        (
            on(A, listeners=(Listener("::", 29501),)),
            "node spark-a, TCP port 29501",
            "something else listens on the port",
        ),
    ],
)
def test_a_problem_names_node_part_and_remedy(
    states: dict[str, NodeState], place: str, what: str
) -> None:
    message = problems(GOAL, states)[0]
    assert (message.place, message.what) == (place, what)
    assert message.remedy


def test_a_missing_device_is_told_with_those_that_are_there() -> None:
    (message,) = problems(GOAL, on(B, hcas=empty(GOAL)[B].hcas[:1]))
    assert message.found == "rocep1s0f0"


def test_an_address_with_another_prefix_is_another_address() -> None:
    first, second = empty(GOAL)[A].netdevs
    other = replace(first, addresses=(IPv4Interface("198.18.77.11/16"),))
    (message,) = problems(GOAL, on(A, netdevs=(other, second)))
    assert (message.expected, message.found) == ("198.18.77.11/24", "198.18.77.11/16")


def test_an_mtu_that_differs_is_a_problem() -> None:
    first, second = empty(GOAL)[A].netdevs
    assert found(on(A, netdevs=(first, replace(second, mtu=1500)))) == [
        ("node spark-a, enP2p1s0f0np0", "the interface has another MTU")
    ]


def test_a_rate_that_the_kernel_does_not_tell_is_no_problem() -> None:
    assert found(with_hca(A, rate_gbit_s=None)) == []


def test_a_platform_may_have_a_variant() -> None:
    engine = replace(empty(GOAL)[A].engine, platform="linux/arm64/v8")
    assert found(on(A, engine=engine)) == []


def test_ports_matter_on_the_head_alone() -> None:
    assert found(on(B, listeners=(Listener("0.0.0.0", 8000),))) == []  # noqa: S104


def test_ports_of_our_own_running_rank_are_free_for_its_successor() -> None:
    states = serving(GOAL)
    both = (Listener("0.0.0.0", 8000), Listener("198.18.77.11", 29501))  # noqa: S104
    states[A] = replace(states[A], listeners=both)
    assert found(states) == []
    stopped = replace(states[A], containers=(container(GOAL, 0, running=False),))
    assert len(found(states | {A: stopped})) == 2


def test_an_ipv6_loopback_or_another_address_does_not_take_the_port() -> None:
    goal = wanted(change={"serve": {"host": "198.18.77.11"}})
    states = empty(goal)
    others = (Listener("::1", 8000), Listener("127.0.0.1", 8000), Listener("198.18.78.11", 8000))
    states[A] = replace(states[A], listeners=others)
    assert problems(goal, states) == ()
    states[A] = replace(states[A], listeners=(Listener("198.18.77.11", 8000),))
    assert len(problems(goal, states)) == 1


def test_a_single_node_needs_no_rdma_and_no_meeting_port() -> None:
    goal = wanted(nodes=1)
    states = empty(goal)
    states[A] = replace(
        states[A],
        hcas=(),
        netdevs=(),
        listeners=(Listener("0.0.0.0", 29501),),  # noqa: S104
    )
    assert problems(goal, states) == ()


@pytest.mark.parametrize(
    ("obstacle", "remedy"),
    [
        (ModelObstacle("rights", "/srv", "x"), "sudo install -d -o"),
        (ModelObstacle("rights", "/srv/models/m/.sparklock", "x"), "sudo chown -R"),
        (ModelObstacle("blocked", "/srv/mo dels", "x"), "sudo mv -- '/srv/mo dels' "),
        (ModelObstacle("read-only", "/srv", "x"), "mounted for writing"),
    ],
)
def test_a_model_s_folder_that_cannot_be_written_is_told(
    obstacle: ModelObstacle, remedy: str
) -> None:
    goal = wanted()
    states = {node.name: fit(goal, node) for node in goal.manifest.nodes}
    states["spark-b"] = replace(states["spark-b"], model_obstacle=obstacle)
    (message,) = problems(goal, states)
    assert (message.place, message.found) == ("node spark-b", "x")
    assert remedy in message.remedy


def test_every_problem_of_every_node_is_told() -> None:
    states = {
        name: replace(state, hcas=(), netdevs=LOOPBACK) for name, state in empty(GOAL).items()
    }
    assert len(found(states)) == 8
