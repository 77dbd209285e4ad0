from __future__ import annotations

import errno
import os
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from deploy.actions import CopyModel, FetchModel, Phase, PlaceModel
from deploy.plan import make_plan
from deploy.state import ModelFileFacts
from deploy.wanted import wanted as wanted_of
from deploy.weights import LARGE_BYTES, sharing, weights_steps
from deploy.weights_errors import NotWritableError
from deploy.weights_report import NodeWeightsReport, WeightsReport
from tests.unit.deploy.clusters import LOCK_DIGEST, MODEL, document, fit, lock, manifest_of, wanted
from tests.unit.deploy.simulation import applied

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from deploy.state import NodeState
    from deploy.wanted import Wanted

PATHS = tuple(file.path for file in MODEL)


def of_the_hub() -> Wanted:
    parsed = document()
    parsed["model"] = {"repo": "org/name", "revision": "a" * 40, "path": "/srv/models/m"}
    return wanted_of(manifest_of(parsed), lock(), LOCK_DIGEST)


def having(
    goal: Wanted, in_place: Mapping[str, Iterable[str]], staged: Mapping[str, Iterable[str]] = {}
) -> dict[str, NodeState]:
    return {
        node.name: replace(
            fit(goal, node),
            model_files=tuple(
                ModelFileFacts(f.path, f.size_bytes, f.digest)
                for f in MODEL
                if f.path in in_place.get(node.name, ())
            ),
            model_staged=frozenset(staged.get(node.name, ())),
        )
        for node in goal.manifest.nodes
    }


def brought(actions: Iterable[FetchModel | CopyModel]) -> list[tuple[str, str, list[str]]]:
    return [
        (a.node, a.source if isinstance(a, CopyModel) else "hub", [f.path for f in a.files])
        for a in actions
    ]


def test_one_node_fetches_and_the_others_copy() -> None:
    goal = of_the_hub()
    found = sharing(goal, having(goal, {}))
    assert brought(found.fetch) == [("spark-a", "hub", [*PATHS])]
    assert brought(found.copy) == [("spark-b", "spark-a", [*PATHS])]


def test_what_one_node_has_is_not_fetched() -> None:
    goal = of_the_hub()
    found = sharing(goal, having(goal, {"spark-b": PATHS}))
    assert found.fetch == ()
    assert brought(found.copy) == [("spark-a", "spark-b", [*PATHS])]


def test_what_waits_beside_its_place_does_not_travel_again() -> None:
    goal = of_the_hub()
    found = sharing(goal, having(goal, {}, {"spark-b": PATHS}))
    assert brought(found.copy) == [("spark-a", "spark-b", [*PATHS])]
    assert found.fetch == ()


def test_a_small_model_of_our_own_is_sent_to_each_node() -> None:
    goal = wanted()
    found = sharing(goal, having(goal, {}))
    assert [(a.node, [f.path for f in a.files]) for a in found.send] == [
        ("spark-a", [*PATHS]),
        ("spark-b", [*PATHS]),
    ]
    assert not found.copy
    assert [a.node for a in sharing(goal, having(goal, {"spark-b": PATHS})).send] == ["spark-a"]


def test_a_large_one_is_sent_to_one_node_and_copied_from_there() -> None:
    small = wanted()
    large = tuple(f.model_copy(update={"size_bytes": LARGE_BYTES}) for f in small.model_files)
    goal = replace(small, model_files=large)
    found = sharing(goal, having(goal, {}))
    assert [a.node for a in found.send] == ["spark-a"]
    assert brought(found.copy) == [("spark-b", "spark-a", [*PATHS])]
    found = sharing(goal, having(goal, {"spark-b": PATHS, "spark-a": PATHS[:1]}))
    assert (found.send, brought(found.copy)) == ((), [("spark-a", "spark-b", [*PATHS[1:]])])


@pytest.mark.parametrize("there", list(product((False, True), repeat=2 * len(PATHS))))
def test_every_node_has_all_files_afterwards_and_none_twice(there: tuple[bool, ...]) -> None:
    goal = of_the_hub()
    names = [(node.name, path) for node in goal.manifest.nodes for path in PATHS]
    has = {pair for pair, here in zip(names, there, strict=True) if here}
    states = having(
        goal, {node.name: [p for n, p in has if n == node.name] for node in goal.manifest.nodes}
    )
    plan = make_plan(goal, states)
    moves = [a for a in plan.actions if isinstance(a, FetchModel | CopyModel)]
    came = [(a.node, file.path) for a in moves for file in a.files]
    assert sorted(came) == sorted(set(names) - has)
    assert sum(isinstance(a, FetchModel) for a in moves) <= 1
    after = applied(goal, plan, states)
    assert make_plan(goal, after).up_to_date


def test_weights_alone_places_only_where_it_is_told_to() -> None:
    goal = of_the_hub()
    states = having(goal, {})
    kinds = [step.phase for step in weights_steps(goal, states, place=False)]
    assert kinds == [Phase.PREPARE, Phase.FETCH, Phase.COPY]
    placing = weights_steps(goal, states, place=True)
    assert [a.node for s in placing for a in s.actions if isinstance(a, PlaceModel)] == [
        "spark-a",
        "spark-b",
    ]
    assert weights_steps(goal, having(goal, dict.fromkeys(states, PATHS)), place=True) == ()


def test_a_check_that_finds_something_fails_and_tells_it() -> None:
    whole = NodeWeightsReport("a", "/m", 10, (), ())
    names = tuple(f"w{number}" for number in range(7))
    other = NodeWeightsReport("b", "/m", 10, names, ("config.json",))
    assert WeightsReport("c", (whole,), checked=True).failure is None
    report = WeightsReport("c", (whole, other), checked=True)
    assert report.failure is not None
    assert report.failure.exit_code == 6
    assert "missing: w0, w1, w2, w3, w4 and 2 more" in report.text()
    assert "different: config.json" in report.text()
    assert report.as_json()["complete"] is False
    assert WeightsReport("c", (whole, other), checked=False).failure is None


@pytest.mark.parametrize(
    ("code", "helps"),
    [
        (errno.ENOSPC, "make room on the node: df -h '/srv/a b'"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "mounted for writing"),
        (errno.EACCES, "chown -R"),
        (errno.EIO, "dmesg"),
        (errno.EMFILE, "see what the node says"),
    ],
)
def test_a_file_that_cannot_be_written_has_the_remedy_of_its_reason(code: int, helps: str) -> None:
    error = NotWritableError("spark-a", "/srv/a b", os.strerror(code))
    (message,) = error.messages
    assert message.found == f"/srv/a b: {os.strerror(code)}"
    assert helps in message.remedy
