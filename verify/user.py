"""The user's own checks: the folder `checks` beside the manifest, run in a process of their own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from builder.errors import Message
from verify.edges.junit import add_suites
from verify.edges.process import run_pytest
from verify.errors import NodesNotReadyError
from verify.events import Told
from verify.report import USER, Check, fault_of, result_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from verify.edges.process import Ended
    from verify.report import CheckResult

FOLDER: Final = "checks"
_ENDS: Final = (0, 1, 5)
"""pytest's statuses for a run that came to its end, and for one in which nothing was selected."""

_UNREADABLE: Final = 4
"""Its status for a selection that it cannot read."""


def user_results(
    manifest_path: Path,
    hear: Callable[[CheckResult], None],
    only: str | None,
    junit_path: Path | None,
    against: Path | None,
) -> tuple[CheckResult, ...]:
    """The results of the user's checks, all in the group USER; none if there are no such checks.

    A file that cannot be loaded, and a run that dies, are errors in the report. NodesNotReadyError
    if a node was lost meanwhile.
    """
    folder = manifest_path.parent / FOLDER
    if not any(folder.rglob("test_*.py")):
        return ()
    told = Told()

    def take(line: str) -> None:
        result = told.hear(line)
        if result is not None:
            hear(result)

    with tempfile.TemporaryDirectory(prefix="sparklock-junit-") as scratch:
        own_junit = Path(scratch) / "user.xml" if junit_path else None
        ended = run_pytest(
            manifest_path,
            only=only,
            junit_path=own_junit,
            hear=take,
            against=against,
            user_checks=folder,
        )
        if junit_path and own_junit and own_junit.exists():
            add_suites(own_junit, into=junit_path, name=USER)
    if told.unready:
        raise NodesNotReadyError(told.unready)
    if only and ended.exit_status == _UNREADABLE:
        return ()
    if ended.exit_status not in _ENDS or not told.lock_digest:
        return (*told.ended(), _died(folder, ended))
    return told.ended()


def _died(folder: Path, ended: Ended) -> CheckResult:
    check = Check(f"{USER}.{FOLDER}", "cluster", str(folder), "The run comes to its end.")
    message = Message(
        place=str(folder),
        what="your own checks did not come to their end",
        expected="exit status 0 or 1 of pytest",
        found=f"exit status {ended.exit_status}",
        detail="\n".join(ended.output.strip().splitlines()[-8:]),
        remedy=fault_of(check),
    )
    return result_of(check, None, (message,))
