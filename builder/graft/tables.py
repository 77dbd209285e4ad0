"""Entries added to a dict literal of a module, by syntax tree; every other byte stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry; `present` means that the table had exactly it before."""

    key: str
    value: tuple[str, str]
    state: Literal["added", "present"]


@dataclass(frozen=True, slots=True)
class TableEdit:
    """A module after the edit, and what became of each entry, in the order asked."""

    after: bytes
    entries: tuple[TableEntry, ...]


def edit_table(
    source: bytes, entries: Mapping[str, tuple[str, str]], *, table: str, place: str
) -> TableEdit:
    """The module with the entries in its table; the same bytes if all are present already.

    `place` is the module as an error names it: `base: usr/lib/.../registry.py`. The result is
    proven: its syntax tree is that of the source with the entries appended, and nothing else.
    Raises TableError: table not found, assigned twice, not a dict literal, a key with another
    value, a module that is not UTF-8 or not Python.
    """
    raise NotImplementedError
