"""Unified diffs, read with unidiff, each line and end of line as the diff has it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from builder.graft.patch_errors import (
    DiffBinaryError,
    DiffEmptyError,
    DiffNotRegularError,
    DiffPathError,
    DiffRenamesError,
    DiffRepeatsError,
    DiffUnreadableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidiff.patch import Hunk as ParsedHunk
    from unidiff.patch import PatchedFile

Kind: TypeAlias = Literal["changed", "new", "deleted"]

NO_FILE: Final = "/dev/null"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a hunk: its sign (space, `-` or `+`), bytes with their end, line of the diff."""

    sign: str
    data: bytes
    number: int


@dataclass(frozen=True, slots=True)
class Hunk:
    """A part of a file that changes; `start` lines of the old file stand before it."""

    start: int
    new_start: int
    lines: tuple[Line, ...]
    number: int

    @property
    def old(self) -> tuple[Line, ...]:
        """The lines that the file must have there."""
        return tuple(line for line in self.lines if line.sign != "+")

    @property
    def new(self) -> tuple[Line, ...]:
        """The lines that take their place."""
        return tuple(line for line in self.lines if line.sign != "-")


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a diff does to one file, which it names `old` before and `new` after; None is no file.

    `mode` is set when the diff sets one. `number` is the line of the diff where it begins.
    """

    old: str | None
    new: str | None
    mode: int | None
    hunks: tuple[Hunk, ...]
    number: int

    @property
    def path(self) -> str:
        """The file's name as the diff writes it."""
        return self.old or self.new or NO_FILE

    @property
    def kind(self) -> Kind:
        """Whether there was a file before, and is one afterwards."""
        if self.old is None:
            return "new"
        return "deleted" if self.new is None else "changed"


def parse_diff(diff: bytes, *, place: str) -> tuple[FilePatch, ...]:
    """What a unified diff does to each of its files, in its order.

    `place` is the diff as an error names it. Raises the errors of builder/graft/patch_errors.py
    whose names begin with Diff.
    """
    files = _parsed(diff, place)
    if not files:
        raise DiffEmptyError(place)
    return tuple(_file_patch(file, f"{place}:{file.diff_line_no}") for file in files)


def paths_in(
    files: Sequence[FilePatch], *, place: str, strip: int | None = None
) -> dict[str, FilePatch]:
    """The files by their relative path in the folder that the diff was made in.

    `strip` is how many folders are taken off each name; None stands for 1 where all names begin
    as git writes them (`a/` and `b/`), else 0. Raises DiffPathError, DiffRenamesError or
    DiffRepeatsError.
    """
    off = _usual_strip(files) if strip is None else strip
    found: dict[str, FilePatch] = {}
    for file in files:
        here = f"{place}:{file.number}"
        names = [_stripped(name, off, here) for name in (file.old, file.new) if name is not None]
        if len(set(names)) != 1:
            raise DiffRenamesError(here, names[0], names[-1])
        if names[0] in found:
            raise DiffRepeatsError(here, names[0], found[names[0]].number)
        found[names[0]] = file
    return found


def _parsed(diff: bytes, place: str) -> list[PatchedFile]:
    """What unidiff reads; each byte is one character to it, so that none is lost."""
    lines = [line.decode("latin-1") for line in re.findall(rb"[^\n]*\n|[^\n]+", diff)]
    reached = 0

    def counted() -> Iterator[str]:
        nonlocal reached
        for reached, line in enumerate(lines, 1):  # noqa: B007 - an error asks for it
            yield line

    try:
        files = list(PatchSet(counted()))
    except UnidiffParseError as error:
        raise DiffUnreadableError(place=f"{place}:{reached}", reason=str(error).strip()) from error
    _refuse_rest(files, lines, place)
    return files


def _refuse_rest(files: Sequence[PatchedFile], lines: Sequence[str], place: str) -> None:
    """Refuse what looks like a part of a hunk and is in none, since unidiff passes over it.

    That is a hunk longer than its header says, or one with a header that is none. Before a file's
    part, in the text of a mail, such lines mean nothing.
    """
    read = {number for file in files for hunk in file for number in _numbers(hunk)}
    within = False
    for number, line in enumerate(lines, 1):
        if number in read:
            continue
        after_old = number > 1 and lines[number - 2].startswith("--- ")
        if line.startswith("diff --git ") or (line.startswith("+++ ") and after_old):
            within = True
        elif _ends_part(line, lines[number : number + 1]):
            within = False
        elif within and line[0] in "@+- ":
            found = "the hunk is longer than it says"
            if line[0] == "@":
                found = "a hunk's header that is none"
            raise DiffUnreadableError(place=f"{place}:{number}", reason=found)


def _numbers(hunk: ParsedHunk) -> range:
    """The lines of a hunk, its header's included."""
    numbers = [line.diff_line_no for line in hunk if line.diff_line_no is not None]
    return range(min(numbers) - 1, max(numbers) + 1) if numbers else range(0)


def _ends_part(line: str, after: Sequence[str]) -> bool:
    """Whether a line outside of hunks begins the next file's part, or ends the diff in a mail."""
    if line in ("-- \n", "--\n") or line.startswith(("diff ", "Index: ", "From ")):
        return True
    return line.startswith("--- ") and bool(after) and after[0].startswith("+++ ")


_PREFIXES: Final = ("a b", "i w", "c i", "c w", "o w", "1 2")
"""What git puts before paths, by its settings."""


def _usual_strip(files: Sequence[FilePatch]) -> int:
    """1 if git's prefixes stand before all names, else 0."""
    pairs = {(_folder(file.old), _folder(file.new)) for file in files}
    return int(any(all(_is_like(pair, usual) for pair in pairs) for usual in _PREFIXES))


def _folder(name: str | None) -> str | None:
    return None if name is None else name.partition("/")[0]


def _is_like(pair: tuple[str | None, str | None], usual: str) -> bool:
    return all(found in (None, wanted) for found, wanted in zip(pair, usual.split(), strict=True))


def _file_patch(file: PatchedFile, place: str) -> FilePatch:
    old, new = (
        None if name == NO_FILE else _plain(name) for name in (file.source_file, file.target_file)
    )
    path = old or new or NO_FILE
    if path.endswith("\r"):
        raise DiffUnreadableError(place, "the line ends of the diff itself are CR LF")
    if file.is_binary_file:
        raise DiffBinaryError(place, path)
    if path == NO_FILE:
        raise DiffUnreadableError(place, "no file before and none after")
    return FilePatch(
        old, new, _mode(file, path, place), _hunks(file, place), file.diff_line_no or 0
    )


def _plain(name: str) -> str:
    """A file's name without git's quotes and escapes."""
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        name = re.sub(r"\\([0-7]{3}|.)", _unescaped, name[1:-1])
    return name.encode("latin-1").decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[str]) -> str:
    text = match[1]
    if len(text) > 1:
        return chr(int(text, 8) & 0xFF)
    return {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}.get(
        text, text
    )


_PART: Final = re.compile(r"(?!\.{1,2}\Z)[^/\x00-\x1f\x7f\udc80-\udcff]+\Z")


def _stripped(name: str, strip: int, place: str) -> str:
    """The name without its first folders: a relative path with no way out."""
    parts = name.split("/")[strip:]
    if not parts or not all(map(_PART.match, parts)):
        raise DiffPathError(place, name, strip)
    return "/".join(parts)


_REGULAR: Final = {"100644": 0o644, "100755": 0o755}


def _mode(file: PatchedFile, plain: str, place: str) -> int | None:
    """The mode that a diff gives a file; what git's index line repeats is not one."""
    stated = [mode for mode in (file.source_mode, file.target_mode) if mode is not None]
    for mode in stated:
        if mode not in _REGULAR:
            raise DiffNotRegularError(place, plain, mode)
    if not stated or file.target_mode is None or file.target_file == NO_FILE:
        return None
    new = file.source_file == NO_FILE
    return _REGULAR[file.target_mode] if new or file.source_mode != file.target_mode else None


def _hunks(file: PatchedFile, place: str) -> tuple[Hunk, ...]:
    """The hunks of a file, which must be in order and change lines, each line but once."""
    found: list[Hunk] = []
    end = 0
    for parsed in file:
        hunk = _hunk(parsed)
        if hunk.start < end or (not hunk.lines):
            raise DiffUnreadableError(place, "its hunks overlap or are out of order")
        end = hunk.start + len(hunk.old)
        found.append(hunk)
    return tuple(found)


def _hunk(parsed: ParsedHunk) -> Hunk:
    lines: list[Line] = []
    for line in parsed:
        if line.line_type == "\\" and lines:  # the line before it has no end
            last = lines.pop()
            lines.append(Line(last.sign, last.data.removesuffix(b"\n"), last.number))
        elif line.line_type in (" ", "-", "+"):
            sign, data = line.line_type, line.value.encode("latin-1")
            lines.append(Line(sign, data, line.diff_line_no or 0))
    number = lines[0].number - 1 if lines else 0
    start = parsed.source_start - (1 if parsed.source_length else 0)
    new_start = parsed.target_start - (1 if parsed.target_length else 0)
    return Hunk(start, new_start, tuple(lines), number)
