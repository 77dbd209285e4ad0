"""The tasks of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Context, task

from builder.edges.tasking import help_for, progress_of, reported, say, say_text

if TYPE_CHECKING:
    from deploy.lab.spec import LabSpec

ROOT = Path(__file__).resolve().parents[2]


def lab_spec() -> LabSpec:
    """The lab of this repository: the one that the embedded default names."""
    from deploy.lab.spec import LabSpec

    return LabSpec(root=ROOT)


@task(
    name="up",
    help=help_for(
        "json",
        "quiet",
        install="install missing Debian packages first",
        nodes="how many (default: as many as are up, else 2)",
    ),
)
@reported
def lab_up(
    _ctx: Context, nodes: str = "", json: bool = False, quiet: bool = False, install: bool = False
) -> None:
    """Start nodes on this machine, two unless told otherwise, each with engine, sshd and RoCE."""
    from dataclasses import replace

    from builder.options import whole_number
    from deploy.lab.lifecycle import lab_up as up
    from deploy.lab.lifecycle import running_spec
    from deploy.lab.requirements import provide

    spec = running_spec(lab_spec())
    if nodes:
        spec = replace(spec, node_count=whole_number(nodes, option="--nodes", least=1))
    progress = progress_of(json=json, quiet=quiet)
    provide(install=install, announce=progress.note)
    say(up(spec, progress), as_json=json)


@task(name="off", help=help_for("json", node="the node's name, such as spark-b"))
@reported
def lab_off(_ctx: Context, node: str, json: bool = False) -> None:
    """Cut a lab node's power, to see what happens then; lab.up brings the node back."""
    from deploy.lab.lifecycle import lab_off as off
    from deploy.lab.lifecycle import running_spec

    say(off(running_spec(lab_spec()), node), as_json=json)


@task(name="down")
@reported
def lab_down(_ctx: Context) -> None:
    """End the lab's nodes and remove every trace of them."""
    from deploy.lab.lifecycle import lab_down as down

    say_text(down(lab_spec()).text())


@task(name="status", help=help_for("json"))
@reported
def lab_status(_ctx: Context, json: bool = False) -> None:
    """Show which of the lab's nodes are up."""
    from deploy.lab.lifecycle import lab_status as status_of
    from deploy.lab.lifecycle import running_spec

    say(status_of(running_spec(lab_spec())), as_json=json)
