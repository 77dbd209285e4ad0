"""The ways in which the folder of vendored files cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import LockError, Message

if TYPE_CHECKING:
    from builder.digest import Digest


@dataclass(frozen=True, slots=True)
class VendorProblem:
    """A file that is not as the lock says; `path` is its path in the folder."""

    path: str
    expected: Digest
    found: str


@dataclass(eq=False)
class VendoredDifferError(LockError):
    """Vendored files are missing, damaged, or not those of the lock."""

    folder: str
    problems: tuple[VendorProblem, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per file."""
        return tuple(
            Message(
                place=f"{self.folder}/{problem.path}",
                what="a vendored file is not the one of the lock",
                expected=f"{problem.expected} (locked)",
                found=problem.found,
                remedy=f"git restore {self.folder}; or, where the sources can be read, inv lock",
            )
            for problem in self.problems
        )


@dataclass(eq=False)
class NotOurFileError(LockError):
    """Something else stands where a vendored file would be written; nothing was written."""

    folder: str
    paths: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per file."""
        return tuple(
            Message(
                place=f"{self.folder}/{path}",
                what="something that sparklock did not write stands in a vendored file's place",
                expected="no file, or one that SHA256SUMS of the folder lists",
                found="another one; it stays as it is",
                remedy="move it away, or name another folder: inv lock --vendor DIR",
            )
            for path in self.paths
        )


@dataclass(eq=False)
class VendorNotWritableError(LockError):
    """The folder cannot be written. `reason` is the system's."""

    folder: str
    reason: str

    template = Message(
        place="{folder}",
        what="vendored files cannot be written",
        expected="a folder in which files can be made, renamed and removed",
        found="{reason}",
        remedy="make room or get permission, then inv lock",
    )
