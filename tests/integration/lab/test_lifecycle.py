"""A lab comes up, and goes without a trace."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy.lab import cgroups, nodes
from deploy.lab.control import LabNode
from deploy.lab.errors import LabElsewhereError
from deploy.lab.lifecycle import lab_down, lab_status, lab_up
from deploy.lab.processes import running_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from deploy.lab.lifecycle import LabState
    from deploy.lab.spec import LabSpec

    RunContainer = Callable[..., str]

pytestmark = pytest.mark.lab


WATCHED = tuple(map(Path, ("/etc", "/etc/docker", "/root", "/srv", "/opt", "/var/lib", "/usr/bin")))


def traces(spec: LabSpec) -> dict[str, object]:
    """What a lab could leave on the machine."""
    run = subprocess.run
    links = run(["ip", "-br", "link"], check=True, capture_output=True, text=True).stdout
    routes = run(["ip", "route"], check=True, capture_output=True, text=True).stdout
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    processes = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if str(spec.path).encode() in _bytes(path)
    ]
    return {
        "processes": processes,
        "links": [line for line in links.splitlines() if f"sl-{spec.name}-" in line],
        "routes": [line for line in routes.splitlines() if f"sl-{spec.name}-" in line],
        "mounts": [line for line in mounts if str(spec.path) in line or spec.name in line.split()],
        "mount count": len(mounts),
        "named namespaces": sorted(path.name for path in Path("/run/netns").glob("*")),
        "cgroups": cgroups.lab_cgroups(spec.cgroup),
        "folder": spec.path.exists(),
        "machine's files": [path.stat().st_mtime_ns for path in WATCHED if path.exists()],
    }


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_a_lab_that_was_used_leaves_no_trace(
    lab_spec: LabSpec, run_container: RunContainer
) -> None:
    before = traces(lab_spec)
    lab_up(lab_spec, Silent())
    run_container(LabNode(lab_spec, "spark-a"), ["/usr/bin/sleep", "600"], "--detach")
    during = traces(lab_spec)
    assert during["cgroups"]
    assert during["links"]
    assert during["processes"]

    lab_down(lab_spec)
    assert traces(lab_spec) == before


def test_down_may_be_repeated_and_needs_no_lab(lab_spec: LabSpec) -> None:
    lab_down(lab_spec)
    lab_down(lab_spec)
    assert not lab_spec.path.exists()
    assert [node.problem for node in lab_status(lab_spec).nodes] == ["off", "off"]


def delete_the_folder(spec: LabSpec) -> None:
    shutil.rmtree(spec.path, ignore_errors=True)  # what is mounted elsewhere may resist


def kill_the_hub(spec: LabSpec) -> None:
    record = nodes.running(nodes.hub_record(spec))
    assert record is not None
    assert record.kill(timeout_s=5)


def lose_the_records(spec: LabSpec) -> None:
    for record in spec.path.rglob("*.json"):
        record.unlink()


def reboot(spec: LabSpec) -> None:
    """All processes gone at once, and all that hangs on them; the files stay."""
    for module in ("deploy.lab.hub", "deploy.lab.node_init"):
        for record in running_module(module, spec.path):
            assert record.kill(timeout_s=5)


@pytest.mark.parametrize("damage", [delete_the_folder, kill_the_hub, lose_the_records, reboot])
def test_after_any_damage_up_gives_a_healthy_lab_and_down_leaves_no_trace(
    lab_spec: LabSpec, damage: Callable[[LabSpec], None]
) -> None:
    before = traces(lab_spec)
    lab_up(lab_spec, Silent())
    damage(lab_spec)
    assert lab_up(lab_spec, Silent()).healthy
    assert len(running_module("deploy.lab.node_init", lab_spec.path)) == lab_spec.node_count
    damage(lab_spec)
    lab_down(lab_spec)
    assert traces(lab_spec) == before


def test_a_lab_may_lie_where_its_nodes_have_something_else(
    lab_spec: LabSpec, tmp_path: Path
) -> None:
    # Every node has its own /tmp, and `tmp_path` is in the machine's; a blank tries the quoting.
    root = tmp_path / "a folder"
    root.mkdir()
    spec = replace(lab_spec, root=root)
    try:
        assert lab_up(spec, Silent()).healthy
        assert LabNode(spec, "spark-a").run(["ls", "/tmp"]) == ""  # noqa: S108 - the node's
    finally:
        lab_down(spec)
    assert not spec.path.exists()


def test_two_labs_do_not_meet(lab: LabState, lab_spec: LabSpec) -> None:
    before = lab_up(lab.spec, Silent())
    other = lab_up(lab_spec, Silent())
    assert other.healthy
    assert {node.address for node in other.nodes}.isdisjoint(node.address for node in lab.nodes)
    lab_down(lab_spec)
    assert lab_status(lab.spec) == before


def test_another_folders_lab_of_the_same_name_is_refused_and_its_end_does_not_touch_this_one(
    lab_spec: LabSpec,
) -> None:
    before = lab_up(lab_spec, Silent())
    other = replace(lab_spec, folder=f"{lab_spec.folder}-elsewhere")
    try:
        with pytest.raises(LabElsewhereError) as caught:
            lab_up(other, Silent())
        assert caught.value.folder == lab_spec.path
    finally:
        lab_down(other)
    assert lab_status(lab_spec) == before


def test_a_lab_with_another_number_of_nodes_replaces_the_one_that_runs(lab_spec: LabSpec) -> None:
    lab_up(lab_spec, Silent())
    larger = lab_up(replace(lab_spec, node_count=4), Silent())
    assert [node.name for node in larger.nodes] == ["spark-a", "spark-b", "spark-c", "spark-d"]
    assert larger.healthy
    assert len(running_module("deploy.lab.node_init", lab_spec.path)) == 4
