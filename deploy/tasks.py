"""The tasks that bring an image to the nodes, and those of daily life with what runs there."""

from __future__ import annotations

import sys
from pathlib import Path

from invoke import Context, task

from builder.edges.left_out import TaskWithOptional
from builder.edges.tasking import FILE, help_for, progress_of, reported, say, say_all

OLDER = "also a lock that a newer generation on the nodes has replaced"


@task(
    help=help_for(
        "file", "json", "quiet", "break-guard",
        check="only say what is missing or different; bring nothing",
    )
)  # fmt: skip
@reported
def weights(
    _ctx: Context,
    file: str = FILE,
    check: bool = False,
    json: bool = False,
    quiet: bool = False,
    break_guard: bool = False,
) -> None:
    """Bring the locked model to every node: from the Hub to one, then over the fabric."""
    from deploy import weights_run

    if check:
        say_all(weights_run.check_weights(Path(file)), as_json=json)
        return
    progress = progress_of(json=json, quiet=quiet)
    say(weights_run.weights(Path(file), progress, break_guard=break_guard), as_json=json)


@task(help=help_for("file", "json"))
@reported
def doctor(_ctx: Context, file: str = FILE, json: bool = False) -> None:
    """Look at every node and the fabric, side by side, and say what to do about each finding."""
    from deploy import doctor as examining

    report = examining.doctor(Path(file))
    say(report, as_json=json)
    sys.exit(report.exit_code)


@task(help=help_for("file", "json", older=OLDER))
@reported
def plan(_ctx: Context, file: str = FILE, json: bool = False, older: bool = False) -> None:
    """Show what deploy would do on each node, and why; change nothing."""
    from deploy import pipeline

    say(pipeline.plan(Path(file), older=older), as_json=json)


@task(
    help=help_for(
        "file", "json", "quiet", "break-guard",
        older=OLDER,
        no_rollback="leave ranks that were started and failed for inspection; bring nothing back",
    )
)  # fmt: skip
@reported
def deploy(
    _ctx: Context,
    file: str = FILE,
    json: bool = False,
    quiet: bool = False,
    break_guard: bool = False,
    older: bool = False,
    no_rollback: bool = False,
) -> None:
    """Bring the locked image to every node and serve; or leave everything as it was."""
    from deploy import pipeline

    progress = progress_of(json=json, quiet=quiet)
    wishes = pipeline.Wishes(older=older, leave_failed=no_rollback)
    report = pipeline.deploy(Path(file), progress, wishes, break_guard=break_guard)
    say(report, as_json=json)


@task(
    help=help_for(
        "file", "json", drift="compare every setting with the lock, and say who changed it"
    )
)
@reported
def status(_ctx: Context, file: str = FILE, drift: bool = False, json: bool = False) -> None:
    """Show what runs on each node, and whether it is what the lock says."""
    if not drift:
        from deploy.edges.logins import begun

        with begun(Path(file)) as logins:
            from deploy import daily  # meanwhile

            say_all(daily.status(Path(file), logins), as_json=json)
        return
    from deploy.drifting import drift as drift_of

    report = drift_of(Path(file))
    say_all(report, as_json=json)
    sys.exit(report.exit_code)


@task(
    help=help_for(
        "file", "json",
        tail="how many lines of each rank (default: 100)",
        generation="of this generation, not of the current one and what failed after it",
    )
)  # fmt: skip
@reported
def logs(
    _ctx: Context,
    file: str = FILE,
    tail: str = "100",
    generation: str | None = None,
    json: bool = False,
) -> None:
    """Show the end of every rank's log."""
    from builder.options import whole_number
    from deploy import daily

    lines = whole_number(tail, option="--tail", least=1)
    number = None
    if generation is not None:
        number = whole_number(generation, option="--generation", least=1)
    say_all(daily.logs(Path(file), tail=lines, generation=number), as_json=json)


@task(
    help=help_for(
        "file", "json", "break-guard",
        remove="remove every container of the cluster, those kept for rollback as well",
    )
)  # fmt: skip
@reported
def stop(
    _ctx: Context,
    file: str = FILE,
    json: bool = False,
    remove: bool = False,
    break_guard: bool = False,
) -> None:
    """Stop the pair and keep it for the next deploy or rollback; images and model files stay."""
    from deploy import daily

    report = daily.stop(Path(file), remove=remove, break_guard=break_guard)
    say_all(report, as_json=json)


@task(
    help=help_for(
        "file",
        "json",
        install="put the unit on every node, or bring it up to date there",
        remove="take it from every node",
    )
)
@reported
def boot(
    _ctx: Context,
    file: str = FILE,
    install: bool = False,
    remove: bool = False,
    json: bool = False,
) -> None:
    """Show what every node does after a restart; --install has the pair come back as one."""
    from builder.options import only_one
    from deploy import booting

    only_one({"--install": install or None, "--remove": remove or None})
    verb = booting.install if install else booting.remove if remove else booting.look
    report = verb(Path(file))
    say_all(report, as_json=json)
    if not remove:
        sys.exit(report.exit_code)


@task(help=help_for("file", "json"))
@reported
def generations(_ctx: Context, file: str = FILE, json: bool = False) -> None:
    """Show every generation that the nodes have: the current one, and those kept for rollback."""
    from deploy import keeping

    say(keeping.generations(Path(file)), as_json=json)


@task(
    klass=TaskWithOptional,
    positional=["number"],
    help=help_for(
        "file", "json", "quiet", "break-guard",
        number="which generation (default: the one before the current; see inv generations)",
    )
)  # fmt: skip
@reported
def rollback(
    _ctx: Context,
    number: str | None = None,
    file: str = FILE,
    json: bool = False,
    quiet: bool = False,
    break_guard: bool = False,
) -> None:
    """Start an older generation again on every node; or leave everything as it was."""
    from builder.options import whole_number
    from deploy import keeping

    wanted = whole_number(number, option="rollback", least=1) if number else None
    progress = progress_of(json=json, quiet=quiet)
    say(keeping.rollback(Path(file), wanted, progress, break_guard=break_guard), as_json=json)


@task(
    help=help_for(
        "file", "json", "break-guard", clear="remove those that no container has any more"
    )
)
@reported
def caches(
    _ctx: Context,
    file: str = FILE,
    json: bool = False,
    clear: bool = False,
    break_guard: bool = False,
) -> None:
    """Show what the nodes keep of what vLLM compiled, with sizes."""
    from deploy import cache_verbs

    say_all(cache_verbs.caches(Path(file), clear=clear, break_guard=break_guard), as_json=json)
