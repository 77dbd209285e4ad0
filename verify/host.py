"""The part of testinfra that verification uses; testinfra itself has no types."""

from __future__ import annotations

from typing import Protocol


class CommandResult(Protocol):
    """What testinfra gives back of a command that ran on a node."""

    @property
    def rc(self) -> int:
        """The exit status."""

    @property
    def stdout_bytes(self) -> bytes:
        """The whole of the standard output."""

    @property
    def stderr_bytes(self) -> bytes:
        """The whole of the standard error output."""


class Host(Protocol):
    """A node as testinfra reaches it."""

    def run(self, command: str, *args: str) -> CommandResult:
        """Run a command; each `%s` of it is replaced by an argument, quoted for the shell.

        RuntimeError if ssh itself failed.
        """
