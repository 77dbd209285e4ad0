"""Why a diff cannot be used (Diff...), or a file not be patched (Patch...), one class each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import BuildError, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

_AGAIN = "make the diff again from the image's own file"


@dataclass(eq=False)
class DiffError(BuildError):
    """A diff, or a part of it, cannot be used; `place` is the diff with a line: `x.diff:12`."""

    place: str


@dataclass(eq=False)
class DiffUnreadableError(DiffError):
    """A diff is not a unified diff, or its hunks contradict themselves."""

    reason: str

    template = Message(
        place="{place}",
        what="the diff cannot be read",
        expected="a unified diff with hunks of as many lines as they say, and LF as its own line "
        "end",
        found="{reason:.200}",
        remedy="make it again with `git diff` or `diff -u`; keep git from changing it: "
        "`*.diff -text` in .gitattributes",
    )


@dataclass(eq=False)
class DiffEmptyError(DiffError):
    """A diff changes no file."""

    template = Message(
        place="{place}",
        what="the diff changes no file",
        expected="a unified diff, with lines --- and +++ for each file",
        found="no such lines",
        remedy="make it again with `git diff` or `diff -u`",
    )


@dataclass(eq=False)
class DiffPathError(DiffError):
    """A diff names a file by what is no path inside of a folder."""

    path: str
    strip: int

    template = Message(
        place="{place}",
        what="the diff names a file that cannot be one of the image",
        expected="a relative path with more than {strip} folders and no '..'",
        found="{path!a}",
        remedy="correct the path in the diff, or set `strip` in [[image.patch]]",
    )


@dataclass(eq=False)
class DiffOutsideError(DiffError):
    """A diff for a package names a file outside of it."""

    path: str
    package: str

    template = Message(
        place="{place}",
        what="the diff changes a file outside of the package {package}",
        expected="{package}/..., as a diff of the package's repository has it",
        found="{path}",
        remedy="remove the file from the diff; or set `strip`, or name the folder of the image "
        "where its paths start by `root` in place of `package`",
    )


@dataclass(eq=False)
class DiffRenamesError(DiffError):
    """A diff renames or copies a file."""

    source: str
    target: str

    template = Message(
        place="{place}",
        what="the diff renames or copies a file",
        expected="one name for each file",
        found="{source} and {target}",
        remedy="make the diff with `git diff --no-renames`: one file deleted, one new",
    )


@dataclass(eq=False)
class DiffRepeatsError(DiffError):
    """A diff has two parts for one file."""

    path: str
    first: int

    template = Message(
        place="{place}",
        what="the diff changes a file twice",
        expected="one part for each file",
        found="{path}, also in line {first}",
        remedy="write two diffs, each with its [[image.patch]]: they are applied in order",
    )


@dataclass(eq=False)
class DiffBinaryError(DiffError):
    """A diff changes a file that is not text."""

    path: str

    template = Message(
        place="{place}",
        what="the diff changes a binary file",
        expected="text",
        found="{path}",
        remedy="remove it from the diff, and bring the file by [[image.file]]",
    )


@dataclass(eq=False)
class DiffNotRegularError(DiffError):
    """A diff makes or changes something else than a regular file; `mode` is git's."""

    path: str
    mode: str

    template = Message(
        place="{place}",
        what="the diff changes something else than a regular file",
        expected="mode 100644 or 100755; 120000 is a symbolic link, 160000 a submodule",
        found="{path}: mode {mode}",
        remedy="remove it from the diff",
    )


@dataclass(eq=False)
class DiffPartError(DiffError):
    """A lock names a part of a diff that the diff does not have."""

    path: str

    template = Message(
        place="{place}",
        what="the diff has no part of the name that the lock says",
        expected="{path}",
        found="other files",
        remedy="run inv lock",
    )


@dataclass(eq=False)
class PatchTargetMissingError(DiffError):
    """A diff changes or deletes a file that is not there."""

    target: str

    template = Message(
        place="{place}",
        what="the file that the diff changes is not in the image",
        expected="a regular file {target}, not reached by a link",
        found="none",
        remedy="correct `package`, `root` or `strip` of [[image.patch]], graft the file, or use "
        "another base",
    )


@dataclass(eq=False)
class PatchTargetExistsError(DiffError):
    """A diff makes a file that is there already."""

    target: str

    template = Message(
        place="{place}",
        what="the file that the diff makes is in the image already",
        expected="nothing at {target}",
        found="a file, or something else of that name",
        remedy=f"{_AGAIN}, or replace it by [[image.file]]",
    )


@dataclass(eq=False)
class PatchNothingError(DiffError):
    """A diff names a file and changes nothing of it."""

    target: str

    template = Message(
        place="{place}",
        what="the diff names a file without changing it",
        expected="at least one hunk, or a new mode",
        found="none for {target}",
        remedy=f"remove it from the diff, or {_AGAIN}",
    )


@dataclass(eq=False)
class PatchLeavesRestError(DiffError):
    """A diff deletes a file of which it knows only a part."""

    target: str
    rest_lines: int

    template = Message(
        place="{place}",
        what="the diff deletes a file that has more lines than it knows of",
        expected="nothing left of {target}",
        found="{rest_lines} more lines",
        remedy=_AGAIN,
    )


@dataclass(eq=False)
class PatchEndError(DiffError):
    """A diff would join two lines: it says of an inner line that it has no end, or adds to one."""

    target: str

    template = Message(
        place="{place}",
        what="the hunk leaves a line without its end inside of the file",
        expected=r"'\ No newline at end of file' for the last line alone",
        found="lines of {target} that would be joined",
        remedy=_AGAIN,
    )


@dataclass(eq=False)
class PatchGoneError(DiffError):
    """A table is to be edited in a file that a diff deletes; `place` is the file."""

    template = Message(
        place="{place}",
        what="a table is to be edited in a file that a diff deletes",
        expected="a module that is there after all diffs",
        found="none",
        remedy="remove the [[image.register]], or the file from the diff",
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
        if self.is_there:
            return "the file has this change already: remove the hunk, or the whole [[image.patch]]"
        if self.found is not None and self.found.rstrip(b"\r\n") == self.expected.rstrip(b"\r\n"):
            return f"only the line ends differ: {_AGAIN}, without converting it"
        if self.elsewhere:
            lines = ", ".join(str(line) for line in self.elsewhere)
            return (
                f"hunks are applied at their stated line only, and these lines stand at line "
                f"{lines}: {_AGAIN}"
            )
        return f"{_AGAIN}, or use a base whose version fits it"


def _shown(line: bytes) -> str:
    text = ascii(line.decode("utf-8", "backslashreplace"))
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


_WIDTH = 100
