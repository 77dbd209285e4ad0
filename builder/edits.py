"""The edits of a lock, made again from the blobs it names: what diffs and tables make of a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from builder.digest import digest_bytes
from builder.graft.patch import parse_diff
from builder.graft.patch_apply import apply_patch
from builder.graft.patch_errors import DiffPartError, PatchGoneError
from builder.graft.tables import edit_table
from builder.lock import LockedEntry, LockedPatch, LockedTable

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from builder.digest import Digest
    from builder.graft.patch import FilePatch
    from builder.graft.tables import Entries, TableEdit
    from builder.lock import LockedImage
    from builder.sources import Blobs

Step: TypeAlias = LockedPatch | LockedTable


class LostInputError(AssertionError):
    """The store and the lock disagree although they were compared (as_stored): a bug of ours."""


def steps_by_target(edits: Iterable[Step]) -> dict[str, list[Step]]:
    """Each edited file's absolute path with its steps in order, by path.

    `edits` are diffs before tables: a diff is made against a file as it comes, and a table is found
    wherever it stands.
    """
    found: dict[str, list[Step]] = {}
    for step in edits:
        found.setdefault(step.target, []).append(step)
    return dict(sorted(found.items()))


def changed_files(image: LockedImage) -> dict[str, list[Step]]:
    """As steps_by_target, of the files that are written with their edits or deleted.

    A grafted file is among them in any case, since it is written once. One whose table has all
    entries already stays the base's.
    """
    grafted = {pick.target for pick in image.picks}
    return changed(steps_by_target(image.edits), grafted)


def changed(
    steps_by_target: dict[str, list[Step]], grafted: Container[str]
) -> dict[str, list[Step]]:
    """The files of steps_by_target whose edits are written; `grafted` are absolute paths."""
    return {
        target: steps
        for target, steps in steps_by_target.items()
        if target in grafted
        or isinstance(steps[0], LockedPatch)
        or steps[0].before != steps[-1].after
    }


def edited(steps: list[Step], blobs: Blobs) -> bytes | None:
    """The bytes of a file after all its edits, each checked against the lock; None if deleted."""
    made = list(_remade(steps, blobs))
    if [step for step, _ in made] != steps:
        raise LostInputError(steps[0].target)
    return made[-1][1]


def remade(
    edits: Iterable[Step], blobs: Blobs
) -> tuple[tuple[LockedPatch, ...], tuple[LockedTable, ...]]:
    """All edits as they are when they are made again: diffs and tables, by file."""
    made = [step for steps in steps_by_target(edits).values() for step, _ in _remade(steps, blobs)]
    return (
        tuple(step for step in made if isinstance(step, LockedPatch)),
        tuple(step for step in made if isinstance(step, LockedTable)),
    )


def _remade(steps: list[Step], blobs: Blobs) -> Iterator[tuple[Step, bytes | None]]:
    """Every edit of one file made again: its record, and the file's bytes after it."""
    before = steps[0].before
    data = None if before is None else blobs.read(before)
    for step in steps:
        made: Step
        if isinstance(step, LockedPatch):
            part = _part(step, blobs)
            made, data = patch(part, data, like=step)
        elif data is None:
            raise PatchGoneError(place=f"image: {step.target}")
        else:
            made, data = edit(
                data, _asked(step), target=step.target, table=step.table, mode=step.mode
            )
        yield made, data


def _part(step: LockedPatch, blobs: Blobs) -> FilePatch:
    """The part of a diff that a step applied."""
    parts = parse_diff(blobs.read(step.digest), place=step.diff)
    for part in parts:
        if part.path == step.path:
            return part
    raise DiffPartError(step.diff, step.path)


def patch(
    part: FilePatch, before: bytes | None, *, like: LockedPatch
) -> tuple[LockedPatch, bytes | None]:
    """What a lock says of one file's part of a diff, and the file's bytes after it.

    `like` has the values that do not come of patching; its mode is the file's before.
    Raises what apply_patch raises.
    """
    after = apply_patch(part, before, place=like.diff, target=f"image: {like.target}")
    record = like.model_copy(
        update={
            "path": part.path,
            "mode": like.mode if part.mode is None else f"{part.mode:04o}",
            "before": _digest(before),
            "after": _digest(after),
        }
    )
    return record, after


def _digest(data: bytes | None) -> Digest | None:
    return None if data is None else digest_bytes(data)


def _asked(step: LockedTable) -> Entries:
    """The entries of an edit as they were asked for."""
    keyed = {entry.key: entry.value for entry in step.entries if entry.key is not None}
    return keyed or tuple(entry.value for entry in step.entries)


def edit(
    before: bytes, entries: Entries, *, target: str, table: str, mode: str
) -> tuple[LockedTable, bytes]:
    """What a lock says of one edit of a module, and the module's bytes after it.

    `target` is the module's absolute path. Raises what edit_table raises.
    """
    asked = tuple(entries.items()) if isinstance(entries, Mapping) else entries
    keyed = isinstance(entries, Mapping)
    found = table_edit(before, asked, table, f"image: {target}", keyed=keyed)
    record = LockedTable(
        target=target,
        table=table,
        mode=mode,
        before=digest_bytes(before),
        after=digest_bytes(found.after),
        entries=tuple(
            LockedEntry(key=entry.key, value=entry.value, state=entry.state)
            for entry in found.entries
        ),
    )
    return record, found.after


@lru_cache(maxsize=32)
def table_edit(
    before: bytes, asked: tuple[Any, ...], table: str, place: str, *, keyed: bool
) -> TableEdit:
    """As edit_table; a build asks twice: to compare with the lock, and to write the module."""
    return edit_table(before, dict(asked) if keyed else asked, table=table, place=place)
