"""Where two layers differ first: the entry, and what of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from builder.oci.untar import (
    DIRECTORY,
    FILE,
    HARD_LINK,
    SPARSE,
    SYMLINK,
    Member,
    TarStream,
    UntarError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_PIECE_BYTES: Final = 2**16
_NOTHING: Final = "no such entry"
_KINDS: Final = {
    FILE: "file",
    HARD_LINK: "hard link",
    SYMLINK: "symlink",
    DIRECTORY: "directory",
    SPARSE: "sparse file",
}


@dataclass(frozen=True, slots=True)
class EntryDifference:
    """The first thing that is not the same: `field` of the entry at `path`, with both values."""

    path: str
    field: str
    before: str
    after: str


def first_difference(before: Iterable[bytes], after: Iterable[bytes]) -> EntryDifference | None:
    """The first difference between two plain tars, read side by side; None if entries are equal.

    Equal entries may still stand in other bytes: headers can be written in more than one way.
    """
    one, two = TarStream(before), TarStream(after)
    path = ""
    try:
        for old, new in zip_longest(one, two):
            if old is None or new is None or old.path != new.path:
                return _other_entries(old, new)
            path = old.path
            found = next(_of_fields(old, new), None) or _of_contents(path, one, two)
            if found is not None:
                return found
    except UntarError as error:
        return EntryDifference(error.entry or path, "archive", "one that can be read", error.reason)
    return None


def _other_entries(old: Member | None, new: Member | None) -> EntryDifference:
    before = _NOTHING if old is None else old.path
    after = _NOTHING if new is None else new.path
    return EntryDifference(before if old is not None else after, "path", before, after)


def _of_fields(old: Member, new: Member) -> Iterator[EntryDifference]:
    shown: dict[str, Callable[[Member], str]] = {
        "type": lambda member: _KINDS.get(member.flag, "device"),
        "mode": lambda member: f"{member.mode:04o}",
        "uid": lambda member: str(member.uid),
        "gid": lambda member: str(member.gid),
        "mtime": lambda member: str(member.mtime),
        "linkname": lambda member: member.link,
        "size": lambda member: f"{member.size_bytes} bytes",
    }
    for field, show in shown.items():
        if show(old) != show(new):
            yield EntryDifference(old.path, field, show(old), show(new))


def _of_contents(path: str, one: TarStream, two: TarStream) -> EntryDifference | None:
    """The first byte that differs in two contents of the same size."""
    offset = 0
    while old := one.start(_PIECE_BYTES):
        new = two.start(_PIECE_BYTES)
        if old != new:
            at = next(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
            field = f"content at byte {offset + at}"
            return EntryDifference(path, field, f"0x{old[at]:02x}", f"0x{new[at]:02x}")
        offset += len(old)
    return None
