"""The project's map: every task parses its options, calls one function and prints what came back.

Heavy imports (docker, pytest, rich, pydantic) happen inside the tasks, so `inv --list` stays quick.
"""

from __future__ import annotations

import functools
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from invoke import Collection, task

if TYPE_CHECKING:
    from collections.abc import Callable

    from invoke import Context

    from builder.digest import JsonValue
    from builder.progress import Progress
    from deploy.lab.spec import LabSpec
    from deploy.reports import StatusReport, StopReport

P = ParamSpec("P")
R = TypeVar("R")

ROOT = Path(__file__).resolve().parent
FILE = "cluster.toml"
HELP = {
    "file": "the manifest; its lock lies beside it (default: cluster.toml)",
    "json": "print JSON for scripts",
    "quiet": "tell nothing of the work, only its result",
    "no-install": "never install Debian packages; name them instead",
}

DEMO_END = """
Two nodes serve one model, and that is proven.{answered}

Next:
  inv status                        what runs, and whether it is what the lock says
  inv deploy                        again: nothing changes, and it says so
  edit cluster.toml, inv plan       see a change before it is made
  examples/entrypoint-collision     the mismatch that this tool exists for
  inv stop; inv lab.down            remove the containers; remove the nodes
"""


class Reportable(Protocol):
    """What a pipeline function returns: something a person and a script can read."""

    def text(self) -> str:
        """Lines of plain text."""

    def as_json(self) -> JsonValue:
        """The same as a JSON value."""


def _help(*names: str, **more: str) -> dict[str, str]:
    return {name: HELP[name] for name in names} | {
        name.replace("_", "-"): text for name, text in more.items()
    }


def _reported(body: Callable[P, R]) -> Callable[P, R]:
    """The task, whose known failures are printed as such and end in their own exit code."""

    @functools.wraps(body)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from builder.errors import SparklockError
        from builder.options import require_utf8

        ends_at_once = signal.signal(signal.SIGINT, signal.default_int_handler)  # set by `inv`
        try:
            require_utf8(sys.getfilesystemencoding())
            return body(*args, **kwargs)
        except SparklockError as error:
            from builder.edges.console import print_error

            print_error(error, as_json=bool(kwargs.get("json")))
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(130)
        finally:
            signal.signal(signal.SIGINT, ends_at_once)

    return run


def _say(result: Reportable, *, as_json: bool) -> None:
    from builder.edges.console import print_json

    if as_json:
        print_json(result.as_json())
    else:
        _print(result.text())


def _say_all(result: StatusReport | StopReport, *, as_json: bool) -> None:
    """Say a result of the nodes in reach, then why the others are not in it, and end with that."""
    from builder.edges.console import print_error

    _say(result, as_json=as_json)
    if result.failure is not None:
        if not as_json:  # the JSON object has the failures in it
            print_error(result.failure, as_json=False)
        sys.exit(result.failure.exit_code)


def _print(text: str) -> None:
    from builder.edges.console import print_result

    print_result(text)


def _progress(*, json: bool = False, quiet: bool = False) -> Progress:
    """Progress goes to standard error, so that standard output is the result alone."""
    from builder.edges.console import progress_for

    return progress_for(quiet=quiet or json)


# --- manifest to image -------------------------------------------------------------------------


@task(
    help=_help(
        "file", "json", "quiet",
        check="compare only: no network, nothing written",
        update="move this input alone, base, donors.NAME or model, to what its source has now",
        vendor="keep all that a build needs, beside the base's layers, in this folder from now on",
    )
)  # fmt: skip
@_reported
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
        _say(pipeline.check_lock(path), as_json=json)
        return
    from builder import updating, vendoring
    from deploy.edges.reach import engine_of_node

    progress = _progress(json=json, quiet=quiet)
    report: Reportable
    if update is not None:
        report = updating.update(path, update, progress, reach=engine_of_node)
    elif vendor is not None:
        report = vendoring.vendor(path, vendor, progress, reach=engine_of_node)
    else:
        report = pipeline.lock(path, progress, reach=engine_of_node)
    _say(report, as_json=json)


@task(
    help=_help(
        "file", "json", "quiet",
        name="base, donors.NAME, model, or all: every input without a digest",
    )
)  # fmt: skip
@_reported
def pin(
    _ctx: Context, name: str, file: str = FILE, json: bool = False, quiet: bool = False
) -> None:
    """Write into cluster.toml the digest that an input's source has now; nothing else changes."""
    from builder import pinning
    from deploy.edges.reach import engine_of_node

    progress = _progress(json=json, quiet=quiet)
    _say(pinning.pin(Path(file), name, progress, reach=engine_of_node), as_json=json)


@task(
    help=_help(
        "file", "json", "quiet",
        locked="refuse when the lock is missing or old, instead of writing it",
        output="also write the image: FILE.tar for one archive, else a folder (OCI layout)",
        check="let another process assemble it again in other surroundings, and compare",
        push="also push the image to HOST/NAME[:TAG]; layers that are there are not sent",
    )
)  # fmt: skip
@_reported
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
        _progress(json=json, quiet=quiet),
        locked=locked,
        output=path_of(output, option="--output"),
        push=push,
        check=check,
        reach=engine_of_node,
    )
    _say(report, as_json=json)


@task(
    iterable=["keep"],
    help=_help(
        "file", "json",
        all="also remove the base's layers, which its source has still",
        keep="another lock whose blobs stay; can be given more than once",
        dry_run="only say what would go",
    ),
)  # fmt: skip
@_reported
def gc(
    _ctx: Context,
    keep: list[str],
    file: str = FILE,
    all: bool = False,  # noqa: A002 - the option's name
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Remove from .sparklock/store what the lock does not need; say what must be fetched again."""
    from builder.collecting import collect
    from builder.options import path_of

    kept = [path for text in keep if (path := path_of(text, option="--keep"))]
    _say(collect(Path(file), everything=all, keep=kept, dry_run=dry_run), as_json=json)


@task(help=_help(check="fail when the committed schema is not current; write nothing"))
@_reported
def schema(_ctx: Context, check: bool = False) -> None:
    """Write cluster.schema.json from the manifest's models; editors complete cluster.toml by it."""
    from builder import pipeline

    _print(pipeline.schema(ROOT, check=check))


# --- image to nodes ----------------------------------------------------------------------------


@task(help=_help("file", "json"))
@_reported
def plan(_ctx: Context, file: str = FILE, json: bool = False) -> None:
    """Show what deploy would do on each node, and why; change nothing."""
    from deploy import pipeline

    _say(pipeline.plan(Path(file)), as_json=json)


@task(help=_help("file", "json", "quiet"))
@_reported
def deploy(_ctx: Context, file: str = FILE, json: bool = False, quiet: bool = False) -> None:
    """Bring the locked image to every node and serve; or leave everything as it was."""
    from deploy import pipeline

    _say(pipeline.deploy(Path(file), _progress(json=json, quiet=quiet)), as_json=json)


@task(help=_help("file", "json"))
@_reported
def status(_ctx: Context, file: str = FILE, json: bool = False) -> None:
    """Show what runs on each node, and whether it is what the lock says."""
    from deploy import pipeline

    _say_all(pipeline.status(Path(file)), as_json=json)


@task(help=_help("file", "json", tail="how many lines of each rank (default: 100)"))
@_reported
def logs(_ctx: Context, file: str = FILE, tail: str = "100", json: bool = False) -> None:
    """Show the end of every rank's log."""
    from builder.options import whole_number
    from deploy import pipeline

    lines = whole_number(tail, option="--tail", least=1)
    _say(pipeline.logs(Path(file), tail=lines), as_json=json)


@task(help=_help("file", "json"))
@_reported
def stop(_ctx: Context, file: str = FILE, json: bool = False) -> None:
    """Stop and remove the pair's containers; images and model files stay."""
    from deploy import pipeline

    _say_all(pipeline.stop(Path(file)), as_json=json)


# --- proof -------------------------------------------------------------------------------------


@task(
    help=_help(
        "file", "json", "quiet",
        only="run the checks that match, such as fabric, or 'image or model'",
        junit="also write JUnit XML into this file",
    )
)  # fmt: skip
@_reported
def verify(
    _ctx: Context,
    file: str = FILE,
    only: str = "",
    json: bool = False,  # before junit, or invoke gives -j to that
    junit: str | None = None,
    quiet: bool = False,
) -> None:
    """Prove on every node what runs there: image, launcher, fabric, ranks, answers."""
    from builder.options import path_of
    from verify.run import run_checks

    report = run_checks(
        Path(file),
        progress=_progress(json=json, quiet=quiet),
        only=only or None,
        junit_path=path_of(junit, option="--junit"),
    )
    if json:
        _say(report, as_json=True)
    else:
        _print(report.text(colour=_colour()))
    report.require_passed()


def _colour() -> bool:
    from builder.edges.console import wants_colour

    return wants_colour(sys.stdout)


# --- the lab -----------------------------------------------------------------------------------


def _lab_spec() -> LabSpec:
    from deploy.lab.spec import LabSpec

    return LabSpec(root=ROOT)


@task(name="up", help=_help("json", "quiet", install="install missing Debian packages first"))
@_reported
def lab_up(_ctx: Context, json: bool = False, quiet: bool = False, install: bool = False) -> None:
    """Start two nodes on this machine, each with its own engine, sshd and RoCE devices."""
    from deploy.lab.lifecycle import lab_up as up
    from deploy.lab.requirements import provide

    progress = _progress(json=json, quiet=quiet)
    provide(install=install, announce=progress.note)
    _say(up(_lab_spec(), progress), as_json=json)


@task(name="down")
@_reported
def lab_down(_ctx: Context) -> None:
    """End the lab's nodes and remove every trace of them."""
    from deploy.lab.lifecycle import lab_down as down

    _print(down(_lab_spec()).text())


@task(name="status", help=_help("json"))
@_reported
def lab_status(_ctx: Context, json: bool = False) -> None:
    """Show which of the lab's nodes are up."""
    from deploy.lab.lifecycle import lab_status as status_of

    _say(status_of(_lab_spec()), as_json=json)


# --- the project itself ------------------------------------------------------------------------


@task(help=_help("no-install"))
@_reported
def demo(_ctx: Context, no_install: bool = False) -> None:
    """Take this machine to two verified nodes: lab, lock, build, plan, deploy, verify, answer."""
    from builder import pipeline as builder
    from deploy import pipeline as deployer
    from deploy.edges.reach import engine_of_node
    from deploy.lab.lifecycle import lab_up as up
    from deploy.lab.requirements import provide
    from verify.run import run_checks

    file, progress, say = ROOT / FILE, _progress(), _print
    say("== 1/6 two nodes on this machine (inv lab.up)")
    provide(install=not no_install, announce=progress.note)
    say(up(_lab_spec(), progress).text())
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
@_reported
def check(_ctx: Context) -> None:
    """Check the code: ruff, mypy and the import rules. Part of test."""
    from tests.runner import run_static_checks

    sys.exit(run_static_checks(ROOT))


@task(
    help=_help(
        "no-install",
        fast="leave out what needs root, Docker and two nodes",
        slow="also run what takes more than a minute each",
    )
)
@_reported
def test(_ctx: Context, fast: bool = False, slow: bool = False, no_install: bool = False) -> None:
    """Run everything CI runs: static checks, unit tests, and two real nodes on this machine."""
    from deploy.lab.requirements import provide
    from tests.runner import PACKAGE_OF_TESTS, run_tests

    if not fast:
        provide(install=not no_install, announce=_progress().note, package_of=PACKAGE_OF_TESTS)
    sys.exit(run_tests(ROOT, fast=fast, slow=slow))


@task(
    help=_help(
        "json",
        only="run the benchmarks whose name contains this",
        long="with images of 2 GB, which takes half an hour",
        record="write the results into docs/speed.md",
    )
)
@_reported
def bench(
    _ctx: Context, only: str = "", long: bool = False, record: bool = False, json: bool = False
) -> None:
    """Measure the speed claims, each against its yardstick in the same run."""
    from tests.bench.record import record as write
    from tests.bench.record import recordable
    from tests.bench.run import run_benchmarks

    page = recordable(ROOT, only=only) if record else None
    report = run_benchmarks(ROOT, only=only, long=long, progress=_progress(json=json))
    if page:
        write(page, report)
    _say(report, as_json=json)
    sys.exit(0 if report.met else 1)


ns = Collection(
    lock, pin, build, gc, schema, plan, deploy, status, logs, stop, verify, demo, check, test, bench
)
ns.add_collection(Collection("lab", lab_up, lab_down, lab_status))
