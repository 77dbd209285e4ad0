"""A node as its own copy of the program, or rank 0's, may ask it: report, hold, stop, start."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, Protocol

from .journal import say

if TYPE_CHECKING:
    from .engine import Engine
    from .facts import Config

BUSY_STATUS: Final = 75


class GuardTakenError(OSError):
    """Another holds the guard."""

    def __str__(self) -> str:
        return "the guard is taken: a deploy is at work"


class GuardLostError(OSError):
    """What changes a node was asked for without its guard."""

    def __str__(self) -> str:
        return "the guard is not held"


class AnotherGenerationError(OSError):
    """The container that is meant is not the current one any more."""

    def __str__(self) -> str:
        return "another generation stands here by now"


class Guard:
    """The node's guard, the same that every deploy holds; OSError if another has it."""

    def __init__(self, config: Config, folder: str = "/run") -> None:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017 - Python 3.10
        who = f"root@{config.node}"
        title = f"sparklock-guard {config.cluster} {who} {os.getpid()} {now} boot {folder}"
        argv = ["flock", "--no-fork", "--nonblock", "--conflict-exit-code", str(BUSY_STATUS)]
        self._process = subprocess.Popen(
            [*argv, folder, "bash", "-c", 'exec -a "$0" cat', title],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"\n")
        if self._process.stdout.read(1) != b"\n":
            self.close()
            raise GuardTakenError

    @property
    def held(self) -> bool:
        """Whether nobody has broken it."""
        return self._process.poll() is None

    def close(self) -> None:
        """Give it back."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class Asked(Protocol):
    """A node that can be asked to `report`, to `hold` its guard, to `start` or `stop` its rank."""

    def ask(self, verb: str, container: str = "") -> dict[str, Any]:
        """The answer; OSError, with the reason, if it does not do it."""

    def close(self) -> None:
        """Give its guard back."""


class Here:
    """This node, as its own copy or another asks it."""

    def __init__(self, config: Config, engine: Engine) -> None:
        self._config = config
        self._engine = engine
        self._guard: Guard | None = None

    def ask(self, verb: str, container: str = "") -> dict[str, Any]:
        """The answer; OSError, with the reason, if it does not do it."""
        if verb == "report":
            return asdict(self._engine.report())
        if verb == "hold":
            self._guard = Guard(self._config)
            return {}
        if self._guard is None or not self._guard.held:
            raise GuardLostError
        if self._engine.report().container != container:
            raise AnotherGenerationError
        say(f"{verb} {container[:12]}")
        self._engine.start(container) if verb == "start" else self._engine.stop(container)
        return {}

    def close(self) -> None:
        """Give the guard back."""
        if self._guard is not None:
            self._guard.close()
            self._guard = None
