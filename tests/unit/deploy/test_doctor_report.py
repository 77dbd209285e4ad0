from __future__ import annotations

from dataclasses import replace
from typing import Any

from builder.lock_errors import LockNotFoundError
from deploy.doctor_report import DoctorReport, unlocked, unreached
from deploy.doctor_table import table
from deploy.errors import NodesFailedError
from deploy.node_errors import (
    EngineStoppedError,
    HostKeyChangedError,
    NodeUnreachableError,
    RemoteCommandError,
)
from deploy.plan import make_plan
from deploy.preflight import Level, preflight, rows, warnings_of
from deploy.reports import PlanReport
from tests.unit.deploy.clusters import empty
from tests.unit.deploy.preflighting import BOTH, GOAL, A, B, node_with

NETDEVS = empty(GOAL)[A].netdevs


def report(**changed: Any) -> DoctorReport:  # noqa: ANN401 - any field
    states = node_with(**changed)
    drawn = table(GOAL.manifest, GOAL, states, ())
    return DoctorReport("pair", BOTH, drawn, preflight(GOAL, states))


def test_nodes_stand_side_by_side_and_a_bad_cell_is_marked() -> None:
    lines = report(netdevs=(replace(NETDEVS[0], mtu=1500), NETDEVS[1])).text().splitlines()
    assert lines[0].split() == [A, B]
    (row,) = (line for line in lines if line.startswith("fabric 1 "))
    words = " ".join(row.split())
    assert "MTU 1500, up [error] enp1s0f0np0 198.18.77.12/24, MTU 9000, up" in words
    assert "errors, which stop a deploy:" in lines
    assert lines[-1] == "pair: not fit: errors 1, warnings 0, not checked 0"


def test_what_was_not_read_is_unknown_and_not_absent() -> None:
    first, second = empty(GOAL)[A].hcas
    unread = report(
        netdevs=(replace(NETDEVS[0], flags=()), NETDEVS[1]),
        hcas=(replace(first, gids=None), second),
    )
    cells = {row.name: row.cells[0] for row in unread.table}
    assert cells["fabric 1"].endswith("MTU 9000, unknown")
    assert cells["RDMA 1"].endswith("GID unknown")
    none = {row.name: row.cells[0] for row in report(netdevs=()).table}
    assert none["fabric 1"] == "enp1s0f0np0: unknown"


def test_healthy_nodes_are_fit_and_end_with_0() -> None:
    found = report()
    assert (found.fit, found.exit_code) == (True, 0)
    assert found.text().endswith("fit for a deploy: errors 0, warnings 0, not checked 0")
    assert report(hcas=()).exit_code == 5


def test_a_node_that_cannot_be_reached_keeps_its_column() -> None:
    error = NodeUnreachableError(B, "spark-b", "Connection timed out")
    states = {A: empty(GOAL)[A]}
    found = DoctorReport(
        "pair",
        BOTH,
        table(GOAL.manifest, GOAL, states, ()),
        (*unreached([error], rows.ENGINE), *preflight(GOAL, states)),
    )
    (row,) = (line for line in found.text().splitlines() if line.startswith("ssh"))
    assert row.split() == ["ssh", "reached", "[error]"]
    as_json: Any = found.as_json()
    assert as_json["nodes"][1] == {"node": B, "facts": {}}


def test_every_node_that_fails_is_told_with_its_own_reason() -> None:
    key = HostKeyChangedError(A, "spark-a", "REMOTE HOST IDENTIFICATION HAS CHANGED!")
    stopped = EngineStoppedError(B, found="/var/run/docker.sock")
    found = list(unreached([NodesFailedError([key, stopped])], rows.ENGINE))
    assert [(item.nodes, item.row) for item in found] == [((A,), "ssh"), ((B,), "engine")]
    empty_table = DoctorReport("pair", BOTH, table(GOAL.manifest, GOAL, {}, ()), tuple(found))
    text = empty_table.text()
    assert "the host key of the node has changed" in text
    assert "the Docker engine does not answer" in text


def test_a_node_that_fails_later_keeps_what_was_observed_of_it() -> None:
    failed = RemoteCommandError(A, ("sh",), 1, "")
    (finding,) = unreached([failed], rows.LINKS)
    assert (finding.row, finding.level) == ("to the peers", Level.ERROR)
    states = empty(GOAL)
    assert table(GOAL.manifest, GOAL, states, (), {A}) == table(GOAL.manifest, GOAL, states, ())


def test_a_missing_lock_is_not_checked_and_no_error() -> None:
    error = LockNotFoundError("lockfile.json")
    drawn = table(GOAL.manifest, None, empty(GOAL), ())
    found = DoctorReport("pair", BOTH, drawn, tuple(unlocked(error)))
    assert found.exit_code == 0
    assert "not checked, so not proven:" in found.text()
    assert not [row for row in found.table if row.name in {"image", "model"}]


def test_json_has_facts_by_node_and_every_finding() -> None:
    found: Any = report(hcas=empty(GOAL)[A].hcas[:1]).as_json()
    assert found["fit"] is False
    assert found["nodes"][0]["facts"]["RDMA 2"] == "roceP2p1s0f0: none"
    (finding,) = found["findings"]
    assert (finding["level"], finding["check"]) == ("error", "RDMA 2")
    assert finding["nodes"] == [A]
    assert finding["remedy"]


def test_a_plan_tells_in_one_line_that_there_are_warnings_and_json_has_them_all() -> None:
    first, second = empty(GOAL)[A].hcas
    states = node_with(hcas=(replace(first, pcie_width=2), replace(second, pcie_width=2)))
    warnings = warnings_of(preflight(GOAL, states))
    found = PlanReport("pair", make_plan(GOAL, states), warnings=warnings)
    assert found.text().splitlines()[-1] == (
        "preflight: 2 warnings, inv doctor shows them "
        "(node spark-a, rocep1s0f0: its PCIe link is slower than a Spark's, and more)"
    )
    as_json: Any = found.as_json()
    assert [item["level"] for item in as_json["warnings"]] == ["warning", "warning"]
