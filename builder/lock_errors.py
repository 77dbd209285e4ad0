"""The ways in which a lock cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.errors import LockError, Message
from builder.problems import loc_text, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.problems import Problem


def _again(path: str) -> str:
    return f"git restore {path}, or make it again: inv lock"


class LockNotFoundError(LockError):
    """There is no lock beside the manifest."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.path,
                what="there is no lock",
                expected="the resolved state of the manifest beside it",
                found="no such file",
                remedy="inv lock, then commit the file",
            ),
        )


class LockUnreadableError(LockError):
    """The lock's text cannot be had; `reason` says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__()
        self.path = path
        self.reason = reason

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


class LockNotWritableError(LockError):
    """The lock cannot be written; the old one, if any, is whole. `reason` is the system's."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__()
        self.path = path
        self.reason = reason

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the system's reason."""
        return (
            Message(
                place=self.path,
                what="the lock cannot be written",
                expected="a folder in which files can be made and renamed",
                found=self.reason,
                remedy="make room or get permission, then inv lock",
            ),
        )


class LockConflictError(LockError):
    """The lock holds the marks of a merge; `line` is the first, from 1."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__()
        self.path = path
        self.line = line

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message: a lock is made again, never merged."""
        return (
            Message(
                place=f"{self.path}:{self.line}",
                what="the lock holds an unfinished merge",
                expected="the lock of one manifest",
                found="conflict markers",
                remedy=f"merge the manifest; then git checkout --ours {self.path}, and inv lock",
            ),
        )


class LockNotJsonError(LockError):
    """The lock is not JSON; `line` counts from 1."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__()
        self.path = path
        self.line = line
        self.problem = problem

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


class LockVersionError(LockError):
    """The file has another version than this sparklock reads, or none; `found` is its value."""

    def __init__(self, path: str, known: int, found: object) -> None:
        super().__init__()
        self.path = path
        self.known = known
        self.found = found

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


class LockInvalidError(LockError):
    """The lock's values cannot be used."""

    def __init__(self, path: str, problems: Iterable[Problem]) -> None:
        super().__init__()
        self.path = path
        self.problems = tuple(problems)

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


class LockNotCanonicalError(LockError):
    """The lock was written by something else than `inv lock`; `line` is the first, from 1."""

    def __init__(self, path: str, line: int, expected: str, found: str) -> None:
        super().__init__()
        self.path = path
        self.line = line
        self.expected = expected
        self.found = found

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
