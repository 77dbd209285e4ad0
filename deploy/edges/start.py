"""What `inv` runs, by its path: invoke's own program, begun so that little is waited for.

Until a task begins that has to clean up, Ctrl-C ends it at once and without a traceback.
Nothing is imported here before it has to be.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

ROOT: Final = Path(__file__).resolve().parents[2]
LOOKS: Final = frozenset(("status",))
"""The tasks whose logins are begun before anything else."""

FILE: Final = "cluster.toml"
FILE_OPTIONS: Final = ("--file", "-f")
UNWRITTEN: Final = (errno.EPIPE, errno.ENOSPC)
"""Why what invoke itself prints, such as a listing, did not reach standard output."""

MOCK: Final = "unittest.mock"


def main(argv: Sequence[str]) -> None:
    """Run what the command line asks for, which ends the process with an exit code."""
    signal.signal(signal.SIGINT, _end)
    sys.path.insert(0, str(ROOT))  # as invoke does, later
    _begin_logins(argv)
    # Invoke has a class for the tests of its users, and so imports what is a quarter of its start.
    sys.modules[MOCK] = SimpleNamespace(Mock=None)  # type: ignore[assignment] # for that import
    from invoke.main import program  # noqa: PLC0415 - not before the logins are on their way

    del sys.modules[MOCK]
    try:
        try:
            program.run(["inv", "--search-root", str(ROOT), *argv])
        finally:
            if sys.stdout is not None:  # it is when it was closed before we began
                sys.stdout.flush()
    except OSError as error:
        if error.errno not in UNWRITTEN or error.filename is not None:
            raise
        sys.exit(_unwritten(error))


def _unwritten(error: OSError) -> int | str:
    """What to end with: an exit code when the reader is gone, such as `head`, else words."""
    from builder.edges.console import READER_GONE  # noqa: PLC0415 - for a failure alone

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno == errno.EPIPE:
        return READER_GONE
    return f"error: standard output: the result cannot be written: {error.strerror}"


def _begin_logins(argv: Sequence[str]) -> None:
    """Let the logins of a task that only looks be on their way, if this seems to be one.

    Whether it is, invoke finds out; what was begun in vain ends with the process.
    """
    if not argv or argv[0] not in LOOKS:
        return
    from deploy.edges.logins import begin  # noqa: PLC0415 - for these tasks alone

    begin(Path(manifest_of(argv)))


def manifest_of(argv: Sequence[str]) -> str:
    """The manifest's path as the words of a command line give it."""
    for word, following in zip(argv, (*argv[1:], ""), strict=True):
        if word in FILE_OPTIONS:
            return following
        name, equals, value = word.partition("=")
        if equals and name in FILE_OPTIONS:
            return value
    return FILE


def _end(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
