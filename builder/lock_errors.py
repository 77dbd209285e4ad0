"""The ways in which a lock cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import LockError, Message
from builder.read.problems import loc_text, value_text

if TYPE_CHECKING:
    from builder.read.problems import Problem


def _again(path: str) -> str:
    return f"git restore {path}, or make it again: inv lock"


@dataclass(eq=False)
class LockNotFoundError(LockError):
    """There is no lock beside the manifest."""

    path: str

    template = Message(
        place="{path}",
        what="there is no lock",
        expected="the resolved state of the manifest beside it",
        found="no such file",
        remedy="inv lock, then commit the file",
    )


@dataclass(eq=False)
class LockUnreadableError(LockError):
    """The lock's text cannot be had; `reason` says why."""

    path: str
    reason: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the reason."""
        return (
            Message(
                place=self.path,
                what="the lock cannot be read",
                expected="a readable text file",
                found=self.reason,
                remedy=_again(self.path),
            ),
        )


@dataclass(eq=False)
class LockNotWritableError(LockError):
    """The lock cannot be written; the old one, if any, is whole. `reason` is the system's."""

    path: str
    reason: str

    template = Message(
        place="{path}",
        what="the lock cannot be written",
        expected="a folder in which files can be made and renamed",
        found="{reason}",
        remedy="make room or get permission, then inv lock",
    )


@dataclass(eq=False)
class LockConflictError(LockError):
    """The lock holds the marks of a merge; `line` is the first, from 1."""

    path: str
    line: int

    template = Message(
        place="{path}:{line}",
        what="the lock holds an unfinished merge",
        expected="the lock of one manifest",
        found="conflict markers",
        remedy="merge the manifest; then git checkout --ours {path}, and inv lock",
    )


@dataclass(eq=False)
class LockNotJsonError(LockError):
    """The lock is not JSON; `line` counts from 1."""

    path: str
    line: int
    problem: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the first mistake."""
        return (
            Message(
                place=f"{self.path}:{self.line}",
                what="the lock is not JSON",
                expected="the text that inv lock writes",
                found=self.problem,
                remedy=_again(self.path),
            ),
        )


@dataclass(eq=False)
class LockVersionError(LockError):
    """The file has another version than this sparklock reads, or none; `found` is its value."""

    path: str
    known: int
    found: object

    @property
    def newer(self) -> bool:
        """Whether a newer sparklock wrote the lock, which then must not be replaced."""
        return type(self.found) is int and self.found > self.known

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message; a newer format is refused, since its meaning cannot be guessed."""
        return (
            Message(
                place=f"{self.path}: lock_version",
                what="a newer sparklock wrote this lock" if self.newer else "this is no lock",
                expected=str(self.known),
                found="nothing" if self.found is None else value_text(self.found),
                remedy="update sparklock" if self.newer else _again(self.path),
            ),
        )


@dataclass(eq=False)
class LockInvalidError(LockError):
    """The lock's values cannot be used."""

    path: str
    problems: tuple[Problem, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per problem; the remedy is one, since only `inv lock` writes the file."""
        return tuple(
            Message(
                place=f"{self.path}: {loc_text(problem.loc)}",
                what=problem.what,
                expected=problem.expected,
                found=problem.found,
                remedy=_again(self.path),
            )
            for problem in self.problems
        )


@dataclass(eq=False)
class LockNotCanonicalError(LockError):
    """The lock was written by something else than `inv lock`; `line` is the first, from 1."""

    path: str
    line: int
    expected: str
    found: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the first line that differs."""
        return (
            Message(
                place=f"{self.path}:{self.line}",
                what="the lock was edited, or its line ends were changed",
                expected=self.expected,
                found=self.found,
                remedy=_again(self.path),
            ),
        )
