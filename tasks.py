"""The project's map: every task parses its options, calls one function and prints what came back.

Those that need the nodes are in deploy/tasks.py, the lab's in deploy/lab/tasks.py. Heavy imports
(docker, pytest, rich, pydantic) happen inside the tasks, so `inv --list` stays quick.
"""

from __future__ import annotations

import atexit
import os
import sys
from gc import freeze, set_threshold
from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Collection, task

from builder.edges.tasking import FILE, help_for, progress_of, reported, say, say_text
from deploy import tasks as nodes
from deploy.lab import tasks as lab_tasks

if TYPE_CHECKING:
    from invoke import Context

    from builder.edges.tasking import Reportable

ROOT = Path(__file__).resolve().parent

# Imports make many objects that all stay; looking for garbage among them takes a tenth of a start,
# and as much again at the end, which frees all of them anyway.
set_threshold(50_000)
atexit.register(freeze)

# Else pydantic looks through all installed packages for plugins; none has a say in what we read.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

DEMO_END = """
Two nodes serve one model, and that is proven.{answered}

Next:
  inv status                        what runs, and whether it is what the lock says
  inv deploy                        again: nothing changes, and it says so
  edit cluster.toml, inv plan       see a change before it is made
  examples/entrypoint-collision     the mismatch that this tool exists for
  inv stop; inv lab.down            stop the containers; remove the nodes
"""


# --- manifest to image ----------------------------------------------------------------------------


@task(
    help=help_for(
        "file", "json", "quiet",
        check="compare only: no network, nothing written",
        update="move this input alone, base, donors.NAME or model, to what its source has now",
        vendor="keep all that a build needs, beside the base's layers, in this folder from now on",
    )
)  # fmt: skip
@reported
def lock(
    _ctx: Context,
    file: str = FILE,
    check: bool = False,
    update: str | None = None,
    vendor: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Resolve the manifest and write lockfile.json; with --check, only say if it is right."""
    from builder import pipeline
    from builder.options import only_one

    path = Path(file)
    only_one({"--check": check, "--update": update, "--vendor": vendor})
    if check:
        say(pipeline.check_lock(path), as_json=json)
        return
    from builder import updating, vendoring
    from deploy.edges.reach import engine_of_node

    progress = progress_of(json=json, quiet=quiet)
    report: Reportable
    if update is not None:
        report = updating.update(path, update, progress, reach=engine_of_node)
    elif vendor is not None:
        report = vendoring.vendor(path, vendor, progress, reach=engine_of_node)
    else:
        report = pipeline.lock(path, progress, reach=engine_of_node)
    say(report, as_json=json)


@task(
    help=help_for(
        "file", "json", "quiet",
        name="base, donors.NAME, model, or all: every input without a digest",
    )
)  # fmt: skip
@reported
def pin(
    _ctx: Context, name: str, file: str = FILE, json: bool = False, quiet: bool = False
) -> None:
    """Write into cluster.toml the digest that an input's source has now; nothing else changes."""
    from builder import pinning
    from deploy.edges.reach import engine_of_node

    progress = progress_of(json=json, quiet=quiet)
    say(pinning.pin(Path(file), name, progress, reach=engine_of_node), as_json=json)


@task(
    help=help_for(
        "file", "json", "quiet",
        locked="refuse when the lock is missing or old, instead of writing it",
        output="also write the image: FILE.tar for one archive, else a folder (OCI layout)",
        check="let another process assemble it again in other surroundings, and compare",
        push="also push the image to HOST/NAME[:TAG]; layers that are there are not sent",
    )
)  # fmt: skip
@reported
def build(
    _ctx: Context,
    file: str = FILE,
    locked: bool = False,
    output: str | None = None,
    push: str | None = None,
    check: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Assemble the hybrid image, prove that it is what the lock says, and keep it in the store."""
    from builder import pipeline
    from builder.options import path_of
    from deploy.edges.reach import engine_of_node

    report = pipeline.build(
        Path(file),
        progress_of(json=json, quiet=quiet),
        locked=locked,
        output=path_of(output, option="--output"),
        push=push,
        check=check,
        reach=engine_of_node,
    )
    say(report, as_json=json)


@task(
    iterable=["keep_lock"],
    help=help_for(
        "file", "json", "break-guard",
        all="also remove the base's layers, which its source has still",
        keep="also on the nodes: all but the current generation and this many others",
        keep_lock="another lock whose blobs stay; can be given more than once",
        dry_run="only say what would go",
    )
)  # fmt: skip
@reported
def gc(
    _ctx: Context,
    keep_lock: list[str],
    file: str = FILE,
    all: bool = False,  # noqa: A002 - the option's name
    keep: str | None = None,
    dry_run: bool = False,
    json: bool = False,
    break_guard: bool = False,
) -> None:
    """Remove from .sparklock/store what the lock does not need; with --keep on the nodes, too."""
    from builder.collecting import collect
    from builder.options import path_of, whole_number
    from deploy import keeping
    from deploy.generations_reports import CollectedReport

    kept = [path for text in keep_lock if (path := path_of(text, option="--keep-lock"))]
    number = None if keep is None else whole_number(keep, option="--keep", least=0)
    path, sweep = Path(file), None
    if number is not None:
        sweep = keeping.sweep(path, keep=number, dry_run=dry_run, break_guard=break_guard)
    store = collect(path, everything=all, keep=kept, dry_run=dry_run)
    say(CollectedReport(store, sweep), as_json=json)


@task(help=help_for(check="fail when the committed schema is not current; write nothing"))
@reported
def schema(_ctx: Context, check: bool = False) -> None:
    """Write cluster.schema.json from the manifest's models; editors complete cluster.toml by it."""
    from builder import pipeline

    say_text(pipeline.schema(ROOT, check=check))


# --- proof ----------------------------------------------------------------------------------------


@task(
    help=help_for(
        "file", "json", "quiet",
        only="run the checks that match, such as fabric, or 'image or model'",
        junit="also write JUnit XML into this file",
        against="compare with this lock, instead of the one beside the manifest",
    )
)  # fmt: skip
@reported
def verify(
    _ctx: Context,
    file: str = FILE,
    only: str = "",
    json: bool = False,  # before junit, or invoke gives -j to that
    junit: str | None = None,
    quiet: bool = False,
    against: str | None = None,
) -> None:
    """Prove on every node what runs there: image, launcher, fabric, ranks, answers."""
    from builder.options import path_of
    from verify.run import run_checks

    report = run_checks(
        Path(file),
        progress=progress_of(json=json, quiet=quiet),
        only=only or None,
        junit_path=path_of(junit, option="--junit"),
        against=path_of(against, option="--against"),
    )
    if json:
        say(report, as_json=True)
    else:
        say_text(report.text(colour=_colour()))
    report.require_passed()


def _colour() -> bool:
    from builder.edges.console import wants_colour

    return wants_colour(sys.stdout)


# --- the project itself ---------------------------------------------------------------------------


@task(help=help_for("no-install"))
@reported
def demo(_ctx: Context, no_install: bool = False) -> None:
    """Take this machine to two verified nodes: lab, lock, build, plan, deploy, verify, answer."""
    from builder import pipeline as builder
    from deploy import pipeline as deployer
    from deploy.edges.reach import engine_of_node
    from deploy.lab.lifecycle import lab_up as up
    from deploy.lab.requirements import provide
    from verify.run import run_checks

    file, progress, say = ROOT / FILE, progress_of(), say_text
    say("== 1/6 two nodes on this machine (inv lab.up)")
    provide(install=not no_install, announce=progress.note)
    say(up(lab_tasks.lab_spec(), progress).text())
    say("== 2/6 is the lock that of the manifest? (inv lock --check)")
    say(builder.check_lock(file).text())
    say("== 3/6 assemble the hybrid image, as locked (inv build --locked)")
    say(builder.build(file, progress, locked=True, reach=engine_of_node).text())
    say("== 4/6 what a deployment would do (inv plan)")
    say(deployer.plan(file).text())
    say("== 5/6 do it (inv deploy)")
    deployed = deployer.deploy(file, progress)
    say(deployed.text())
    say("== 6/6 prove what runs (inv verify)")
    report = run_checks(file, progress=progress)
    say(report.text(colour=_colour()))
    report.require_passed()
    answered = f" It answered: {deployed.answer!r}" if deployed.changed else ""
    say(DEMO_END.format(answered=answered))


@task
@reported
def check(_ctx: Context) -> None:
    """Check the code: ruff, mypy and the import rules. Part of test."""
    from tests.runner import run_static_checks

    sys.exit(run_static_checks(ROOT))


@task(
    help=help_for(
        "no-install",
        fast="leave out what needs root, Docker and two nodes",
        slow="also run what takes more than a minute each",
        long="also run every fault at every step of a deploy, which takes hours",
        faults="only inject publicly reported faults into a pair, and print what caught each",
    )
)
@reported
def test(
    _ctx: Context,
    fast: bool = False,
    slow: bool = False,
    long: bool = False,
    faults: bool = False,
    no_install: bool = False,
) -> None:
    """Run everything CI runs: static checks, unit tests, and two real nodes on this machine."""
    from deploy.lab.requirements import provide
    from tests.runner import PACKAGE_OF_TESTS, provide_dev_tools, run_faults, run_tests

    if not fast:
        provide(install=not no_install, announce=progress_of().note, package_of=PACKAGE_OF_TESTS)
    if faults:
        provide_dev_tools(ROOT)
        sys.exit(run_faults(ROOT, long=long))
    sys.exit(run_tests(ROOT, fast=fast, slow=slow, long=long))


@task(
    help=help_for(
        "json",
        only="run the benchmarks whose name contains this",
        long="with images of 2 GB, which takes half an hour",
        record="write the results into docs/speed.md",
    )
)
@reported
def bench(
    _ctx: Context, only: str = "", long: bool = False, record: bool = False, json: bool = False
) -> None:
    """Measure the speed claims, each against its yardstick in the same run."""
    from tests.bench.record import record as write
    from tests.bench.record import recordable
    from tests.bench.run import run_benchmarks

    page = recordable(ROOT, only=only) if record else None
    report = run_benchmarks(ROOT, only=only, long=long, progress=progress_of(json=json))
    if page:
        write(page, report)
    say(report, as_json=json)
    sys.exit(0 if report.met else 1)


ns = Collection(
    *(lock, pin, build, gc, schema),
    *(nodes.doctor, nodes.plan, nodes.weights, nodes.deploy, nodes.status, nodes.logs, nodes.stop),
    *(nodes.boot, nodes.caches),
    *(nodes.generations, nodes.rollback),
    *(verify, demo, check, test, bench),
)
ns.add_collection(
    Collection("lab", lab_tasks.lab_up, lab_tasks.lab_off, lab_tasks.lab_down, lab_tasks.lab_status)
)
