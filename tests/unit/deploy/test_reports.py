from __future__ import annotations

from deploy.plan import make_plan
from deploy.reports import LogsReport, NodeStatus, RankLog, StatusReport
from tests.unit.deploy.clusters import container, empty, serving, wanted

GOAL = wanted()
STATE = serving(GOAL)["spark-a"]
UP_TO_DATE = make_plan(GOAL, serving(GOAL))


def status(*ends: str, made_from: str = "") -> str:
    """What is said of a node with a container of a generation for each end of its name."""
    found = [
        container(GOAL, 0, number, name=f"sparklock-pair-g{number}-r0{end}")
        for number, end in enumerate(ends, start=8)
    ]
    node = NodeStatus("spark-a", STATE.engine, tuple(found))
    todo = UP_TO_DATE if ends and not ends[-1] else make_plan(GOAL, empty(GOAL))
    return StatusReport("pair", (node,), todo, made_from=made_from).text()


def test_what_serves_comes_before_what_is_kept() -> None:
    lines = status(".old", ".old", "").splitlines()
    names = [line.split()[2] for line in lines[1:4]]
    assert names == [
        "sparklock-pair-g10-r0",
        "sparklock-pair-g9-r0.old",
        "sparklock-pair-g8-r0.old",
    ]
    assert len({line.index("runs") for line in lines[1:4]}) == 1


def test_the_verdict_says_whether_anything_is_deployed() -> None:
    assert "pair: nothing is deployed; inv deploy" in status()
    assert "pair: nothing is current; inv deploy, or inv rollback" in status(".old")
    assert "pair: not as locked" in status(".trial")
    assert "made from lock abc, which asks for the same" in status("", made_from="abc")


def test_logs_that_are_not_shown_are_named() -> None:
    assert LogsReport("pair", ()).text() == "pair: nothing is deployed"
    assert "inv logs --generation 4" in LogsReport("pair", (), kept=(3, 4)).text()
    shown = LogsReport("pair", (RankLog("spark-a", "c", 0, "word\n"),), kept=(3,))
    assert shown.text() == "==> spark-a, rank 0, c\nword"
    assert shown.as_json()["failures"] == []
