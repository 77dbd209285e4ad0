"""The pytest process that runs the checks.

A process of its own, for three reasons. The checks need another configuration, conftest and plugin
set than whatever pytest the caller may be running in; the caller's state (imported modules,
testinfra's cache of hosts, captured output) must not leak into a proof; and a run that dies, even
by a signal, is then seen as checks without a result.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_VERIFY: Final = Path(__file__).resolve().parent.parent
_KEPT_FROM_CHECKS: Final = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_CURRENT_TEST")


@dataclass(frozen=True, slots=True)
class Ended:
    """How the pytest process ended."""

    exit_status: int
    output: str


def run_pytest(  # noqa: PLR0913 - each is an option of the run, and given by name
    manifest_path: Path,
    *,
    only: str | None,
    junit_path: Path | None,
    hear: Callable[[str], None],
    against: Path | None = None,
    user_checks: Path | None = None,
) -> Ended:
    """The end of a pytest run over verify/checks; `hear` gets each event line as it is written.

    With `user_checks`, over that folder instead, and without any conftest.py: what is not
    sparklock's runs in a process where none of its own checks does.

    Only built-in plugins are loaded: one that reruns, reorders or hides failures and happens to be
    installed must not take part.
    """
    environment = {k: v for k, v in os.environ.items() if k not in _KEPT_FROM_CHECKS}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if user_checks:  # nothing of ours is left in their folder
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(_VERIFY.parent), environment.get("PYTHONPATH")))
    )
    reader, writer = os.pipe()
    argv = [
        *(sys.executable, "-m", "pytest", "-c", str(_VERIFY / "pytest.ini")),
        *("--quiet", "--events", str(writer)),
        *("--manifest", str(manifest_path.absolute())),
        *(("--against", str(against.absolute())) if against else ()),
        *(("-k", only) if only else ()),
        *((f"--junitxml={junit_path.absolute()}",) if junit_path else ()),
        *_what(user_checks),
    ]
    with tempfile.TemporaryFile() as output, os.fdopen(reader, encoding="utf-8") as lines:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[writer],
                env=environment,
                start_new_session=True,  # a Ctrl-C reaches it through us, and not twice
            )
        finally:
            os.close(writer)
        with process:
            try:
                for line in lines:
                    hear(line)
            except BaseException:
                process.send_signal(signal.SIGINT)  # once: pytest then ends its connections
                raise
        output.seek(0)
        return Ended(process.returncode, output.read().decode(errors="replace"))


def _what(user_checks: Path | None) -> tuple[str, ...]:
    if user_checks is None:
        return ("--rootdir", str(_VERIFY), str(_VERIFY / "checks"))
    return (
        *("--user", "-p", "verify.conftest", "--noconftest", "--continue-on-collection-errors"),
        *("--rootdir", str(user_checks.parent.absolute()), str(user_checks.absolute())),
    )
