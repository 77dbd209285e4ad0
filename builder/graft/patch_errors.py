"""Why a diff cannot be used (Diff...), or a file not be patched (Patch...), one class each.

`place` is the diff with its line: `patches/x.diff:12`; `target` is the file in the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import BuildError, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

_ANEW = "make the diff again, with `git diff` or `diff -u`"


@dataclass(eq=False)
class DiffUnreadableError(BuildError):
    """A diff is not a unified diff, or its hunks contradict themselves."""

    place: str
    reason: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the reason."""
        return (
            Message(
                place=self.place,
                what="the diff cannot be read",
                expected="a unified diff whose hunks have as many lines as they say, and whose own "
                "line ends are LF",
                found=self.reason[:200],
                remedy=f"{_ANEW}; keep git from changing it: `*.diff -text` in .gitattributes",
            ),
        )


@dataclass(eq=False)
class DiffEmptyError(BuildError):
    """A diff changes no file."""

    place: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.place,
                what="the diff changes no file",
                expected="a unified diff, with lines --- and +++ for each file",
                found="no such lines",
                remedy=_ANEW,
            ),
        )


@dataclass(eq=False)
class DiffPathError(BuildError):
    """A diff names a file by what is no path inside of a folder."""

    place: str
    path: str
    strip: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the path as the diff has it."""
        return (
            Message(
                place=self.place,
                what="the diff names a file that cannot be one of the image",
                expected=f"a relative path with more than {self.strip} folders and no '..'",
                found=ascii(self.path),
                remedy="correct the path in the diff, or set `strip` in [[image.patch]]",
            ),
        )


@dataclass(eq=False)
class DiffOutsideError(BuildError):
    """A diff for a package names a file outside of it."""

    place: str
    path: str
    package: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the path."""
        return (
            Message(
                place=self.place,
                what=f"the diff changes a file outside of the package {self.package}",
                expected=f"{self.package}/..., as a diff of the package's repository has it",
                found=self.path,
                remedy="remove the file from the diff; or set `strip`, or name the folder of the "
                "image where its paths start by `root` in place of `package`",
            ),
        )


@dataclass(eq=False)
class DiffRenamesError(BuildError):
    """A diff renames or copies a file."""

    place: str
    source: str
    target: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with both names."""
        return (
            Message(
                place=self.place,
                what="the diff renames or copies a file",
                expected="one name for each file",
                found=f"{self.source} and {self.target}",
                remedy="make the diff with `git diff --no-renames`: one file deleted, one new",
            ),
        )


@dataclass(eq=False)
class DiffRepeatsError(BuildError):
    """A diff has two parts for one file."""

    place: str
    path: str
    first: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with both lines."""
        return (
            Message(
                place=self.place,
                what="the diff changes a file twice",
                expected="one part for each file",
                found=f"{self.path}, also in line {self.first}",
                remedy="write two diffs, each with its [[image.patch]]: they are applied in order",
            ),
        )


@dataclass(eq=False)
class DiffBinaryError(BuildError):
    """A diff changes a file that is not text."""

    place: str
    path: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.place,
                what="the diff changes a binary file",
                expected="text",
                found=self.path,
                remedy="remove it from the diff, and bring the file by [[image.file]]",
            ),
        )


@dataclass(eq=False)
class DiffNotRegularError(BuildError):
    """A diff makes or changes something else than a regular file."""

    place: str
    path: str
    mode: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with git's mode."""
        kinds = {"120000": "a symbolic link", "160000": "a submodule"}
        return (
            Message(
                place=self.place,
                what="the diff changes something else than a regular file",
                expected="mode 100644 or 100755",
                found=f"{self.path}: {kinds.get(self.mode, 'mode')} ({self.mode})",
                remedy="remove it from the diff",
            ),
        )


@dataclass(eq=False)
class PatchTargetMissingError(BuildError):
    """A diff changes or deletes a file that is not there."""

    place: str
    target: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.place,
                what="the file that the diff changes is not in the image",
                expected=f"a regular file {self.target}, not reached by a link",
                found="none",
                remedy="correct `package`, `root` or `strip` of [[image.patch]], graft the file, "
                "or use another base",
            ),
        )


@dataclass(eq=False)
class PatchTargetExistsError(BuildError):
    """A diff makes a file that is there already."""

    place: str
    target: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.place,
                what="the file that the diff makes is in the image already",
                expected=f"no file {self.target}",
                found="a file",
                remedy="make the diff again from the image's own file, or replace it by "
                "[[image.file]]",
            ),
        )


@dataclass(eq=False)
class PatchNothingError(BuildError):
    """A diff names a file and changes nothing of it."""

    place: str
    target: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.place,
                what="the diff names a file without changing it",
                expected="at least one hunk, or a new mode",
                found=f"none for {self.target}",
                remedy=f"remove it from the diff, or {_ANEW}",
            ),
        )


@dataclass(eq=False)
class PatchLeavesRestError(BuildError):
    """A diff deletes a file of which it knows only a part."""

    place: str
    target: str
    rest_lines: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the lines left."""
        return (
            Message(
                place=self.place,
                what="the diff deletes a file that has more lines than it knows of",
                expected=f"nothing left of {self.target}",
                found=f"{self.rest_lines} more lines",
                remedy="make the diff again from the image's own file",
            ),
        )


@dataclass(eq=False)
class PatchEndError(BuildError):
    """A diff would join two lines: it says of an inner line that it has no end, or adds to one."""

    place: str
    target: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.place,
                what="the hunk leaves a line without its end inside of the file",
                expected=r"'\ No newline at end of file' for the last line alone",
                found=f"lines of {self.target} that would be joined",
                remedy="make the diff again from the image's own file",
            ),
        )


@dataclass(eq=False)
class PatchMismatchError(BuildError):
    """A file has not the lines that a hunk changes, or not where it says.

    `line` counts from 1 in the file before the hunk's own diff; `found` is None behind its end.
    `elsewhere` are lines where the hunk's old lines stand; with `is_there` its new ones stand here.
    """

    place: str
    target: str
    line: int
    expected: bytes
    found: bytes | None
    lines: int
    elsewhere: Sequence[int]
    is_there: bool = False

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with both lines, and what seems to be the matter."""
        found = f"the end of the file, after {self.lines} lines"
        return (
            Message(
                place=self.place,
                what=f"the diff does not fit {self.target}",
                expected=f"line {self.line}: {_shown(self.expected)}",
                found=found if self.found is None else f"line {self.line}: {_shown(self.found)}",
                remedy=self._remedy(),
            ),
        )

    def _remedy(self) -> str:
        again = "make the diff again from the image's own file"
        if self.is_there:
            return "the file has this change already: remove the hunk, or the whole [[image.patch]]"
        if self.found is not None and self.found.rstrip(b"\r\n") == self.expected.rstrip(b"\r\n"):
            return f"only the line ends differ: {again}, without converting it"
        if self.elsewhere:
            lines = ", ".join(str(line) for line in self.elsewhere)
            return (
                f"hunks are applied at their stated line only, and these lines stand at line "
                f"{lines}: {again}"
            )
        return f"{again}, or use a base whose version fits it"


def _shown(line: bytes) -> str:
    text = ascii(line.decode("utf-8", "backslashreplace"))
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


_WIDTH = 100


@dataclass(eq=False)
class PatchGoneError(BuildError):
    """A table is to be edited in a file that a diff deletes."""

    target: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=f"image: {self.target}",
                what="a table is to be edited in a file that a diff deletes",
                expected="a module that is there after all diffs",
                found="none",
                remedy="remove the [[image.register]], or the file from the diff",
            ),
        )


@dataclass(eq=False)
class PatchPartError(BuildError):
    """A lock names a part of a diff that the diff does not have."""

    place: str
    path: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the part's name."""
        return (
            Message(
                place=self.place,
                what="the diff has no part of the name that the lock says",
                expected=self.path,
                found="other files",
                remedy="run inv lock",
            ),
        )
