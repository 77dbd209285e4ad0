"""What every task is made of: options' help, results printed, failures ended with their codes."""

from __future__ import annotations

import functools
import signal
import sys
from typing import TYPE_CHECKING, Final, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from builder.digest import JsonValue
    from builder.errors import SparklockError
    from builder.progress import Progress

P = ParamSpec("P")
R = TypeVar("R")

FILE: Final = "cluster.toml"
HELP: Final = {
    "file": "the manifest; its lock lies beside it (default: cluster.toml)",
    "json": "print JSON for scripts",
    "quiet": "tell nothing of the work, only its result",
    "break-guard": "end the hold of whoever is at work on these nodes for this cluster",
    "no-install": "never install Debian packages; name them instead",
}


class Reportable(Protocol):
    """What a pipeline function returns: something a person and a script can read."""

    def text(self) -> str:
        """Lines of plain text."""

    def as_json(self) -> JsonValue:
        """The same as a JSON value."""


class PartlyReached(Reportable, Protocol):
    """A report of the nodes in reach."""

    @property
    def failure(self) -> SparklockError | None:
        """Why other nodes are not in it; None when all are."""


def help_for(*names: str, **more: str) -> dict[str, str]:
    """The help of options by name: those that tasks share, and a task's own."""
    return {name: HELP[name] for name in names} | {
        name.replace("_", "-"): text for name, text in more.items()
    }


def reported(body: Callable[P, R]) -> Callable[P, R]:
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
            sys.stderr.write("interrupted\n")
            sys.exit(130)
        finally:
            signal.signal(signal.SIGINT, ends_at_once)

    return run


def say(result: Reportable, *, as_json: bool) -> None:
    """Print a result, as text or as one JSON value."""
    from builder.edges.console import print_json

    if as_json:
        print_json(result.as_json())
    else:
        say_text(result.text())


def say_all(result: PartlyReached, *, as_json: bool) -> None:
    """Say a result of the nodes in reach, then why the others are not in it, and end with that."""
    from builder.edges.console import print_error

    say(result, as_json=as_json)
    if result.failure is not None:
        if not as_json:  # the JSON object has the failures in it
            print_error(result.failure, as_json=False)
        sys.exit(result.failure.exit_code)


def say_text(text: str) -> None:
    """Print text to standard output."""
    from builder.edges.console import print_result

    print_result(text)


def progress_of(*, json: bool = False, quiet: bool = False) -> Progress:
    """Progress goes to standard error, so that standard output is the result alone."""
    from builder.edges.console import progress_for

    return progress_for(quiet=quiet or json)
