"""A file's part of a diff, applied: every hunk at its stated line, byte for byte, or not at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from builder.graft.patch_errors import (
    PatchEndError,
    PatchLeavesRestError,
    PatchMismatchError,
    PatchNothingError,
    PatchTargetExistsError,
    PatchTargetMissingError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from builder.graft.patch import FilePatch, Hunk, Line


def apply_patch(patch: FilePatch, before: bytes | None, *, place: str, target: str) -> bytes | None:
    """The file after the patch; None stands for no file, on both sides.

    `place` is the diff and `target` the file as an error names them. Raises the errors of
    builder/graft/patch_errors.py whose names begin with Patch.
    """
    here = f"{place}:{patch.number}"
    if patch.kind == "new" and before is not None:
        raise PatchTargetExistsError(here, target)
    if patch.kind != "new" and before is None:
        raise PatchTargetMissingError(here, target)
    if patch.kind == "changed" and not patch.hunks and patch.mode is None:
        raise PatchNothingError(here, target)
    old = _lines(before or b"")
    new = _applied(patch.hunks, old, place, target)
    if patch.kind == "deleted":
        if new:
            raise PatchLeavesRestError(here, target, len(new))
        return None
    return b"".join(new)


def _applied(hunks: Sequence[Hunk], old: list[bytes], place: str, target: str) -> list[bytes]:
    new: list[bytes] = []
    done = 0
    for hunk in hunks:
        _require(hunk, old, place, target)
        new += old[done : hunk.start]
        new += [line.data for line in hunk.new]
        done = hunk.start + len(hunk.old)
        _require_ends(hunk, new, place, target, more=done < len(old))
    return new + old[done:]


def _require(hunk: Hunk, old: list[bytes], place: str, target: str) -> None:
    """Nothing, if the file has the hunk's old lines just where it says."""
    beyond = hunk.lines[:1] if hunk.start > len(old) else ()
    for number, line in enumerate(hunk.old or beyond, hunk.start):
        found = old[number] if number < len(old) else None
        if found != line.data:
            raise PatchMismatchError(
                place=f"{place}:{line.number}",
                target=target,
                line=number + 1,
                expected=line.data,
                found=found,
                lines=len(old),
                elsewhere=_elsewhere(hunk, old),
                is_there=_has(old, hunk.new_start, hunk.new),
            )


def _require_ends(hunk: Hunk, new: list[bytes], place: str, target: str, *, more: bool) -> None:
    """Nothing, if only the last line of the file lacks its end."""
    inner = new if more else new[:-1]
    if any(not line.endswith(b"\n") for line in inner):
        raise PatchEndError(place=f"{place}:{hunk.number}", target=target)


def _elsewhere(hunk: Hunk, old: list[bytes]) -> tuple[int, ...]:
    """The lines, from 1, where the hunk's old lines do stand; at most three."""
    if len(hunk.old) < _ENOUGH:
        return ()
    starts = (start for start in range(len(old)) if _has(old, start, hunk.old))
    return tuple(start + 1 for _, start in zip(range(3), starts, strict=False))


_ENOUGH = 3
"""Lines by which a place is known again; fewer stand anywhere."""


def _has(lines: list[bytes], start: int, wanted: Sequence[Line]) -> bool:
    there = lines[start : start + len(wanted)]
    return bool(wanted) and there == [line.data for line in wanted]


def _lines(data: bytes) -> list[bytes]:
    r"""The lines with their ends; as in diffs, only `\n` ends one."""
    return re.findall(rb"[^\n]*\n|[^\n]+", data)
