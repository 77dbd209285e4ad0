"""What the closure check finds about tables and code that a donor changed for grafted names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import Message
from builder.graft.findings import register_text
from builder.identities import Kind, identity

if TYPE_CHECKING:
    from builder.graft.findings import DonorFile
    from builder.graft.mentions import Entry


@dataclass(frozen=True, slots=True)
class Place:
    """A file of the image where a donor's version says more.

    `path` is a tree path, `file` the same relative to the package's folder; without `is_there` the
    image does not have the file.
    """

    path: str
    package: str
    file: str
    donor: str
    is_there: bool

    @property
    def name(self) -> str:
        """The file as identities name it."""
        return f"{self.package}/{self.file}"


@dataclass(frozen=True, slots=True)
class MissingEntries:
    """Entries of one table that the donor has for grafted names.

    `line` is the donor's, of the first one. `unbound` are bare names in them that the image's
    module does not know. `can_register` tells that [[image.register]] can write them.
    """

    place: Place
    table: str
    line: int
    entries: tuple[Entry, ...]
    unbound: tuple[str, ...]
    can_register: bool
    closed_by: DonorFile

    @property
    def identity(self) -> str:
        """`table FILE TABLE of KEY, KEY`."""
        keys = ", ".join(item.key or item.value for item in self.entries)
        return identity(Kind.TABLE, self.place.name, self.table, "of", keys)

    @property
    def message(self) -> Message:
        """The table, the entries as the donor writes them, and the edit that adds them."""
        found = "no such entries" if self.place.is_there else "no such file"
        if self.unbound:
            found += f", nor does it know {', '.join(self.unbound)}"
        return Message(
            place=f"/{self.place.path}",
            what=f"{self.table} does not have what donor {self.place.donor} registers in it for "
            "the grafted files",
            expected="; ".join(item.text for item in self.entries)
            + f" (line {self.line} in the donor)",
            found=found,
            remedy=self._remedy(),
        )

    def _remedy(self) -> str:
        if not self.can_register:
            return f"add the entries by [[image.patch]], or {self.closed_by.remedy}"
        keyed = self.entries[0].key is not None
        parts = (f'"{item.key}" = {item.toml}' if keyed else item.toml for item in self.entries)
        written = f"{{ {', '.join(parts)} }}" if keyed else f"[{', '.join(parts)}]"
        place = self.place
        return f"add\n{register_text(place.package, place.file, self.table, written)}"


@dataclass(frozen=True, slots=True)
class UnnamedInCode:
    """Code of the donor that treats grafted names apart, where the image's code does not.

    `function` is empty for a module's own statements; `line` is the donor's, of the first word.
    """

    place: Place
    function: str
    line: int
    words: tuple[str, ...]
    closed_by: DonorFile

    @property
    def identity(self) -> str:
        """`code FILE FUNCTION of WORD, WORD`."""
        where = f"{self.place.name} {self.function}".strip()
        return identity(Kind.CODE, where, "of", ", ".join(self.words))

    @property
    def message(self) -> Message:
        """The function, and what the donor's version of it names."""
        where = f"{self.function} of the donor's" if self.function else "the donor's"
        return Message(
            place=f"/{self.place.path}",
            what=f"donor {self.place.donor} has code for the grafted files here, and the assembled "
            "image does not",
            expected=f"code that names {', '.join(self.words)}, as line {self.line} of {where} "
            "version does",
            found="none of them" if self.place.is_there else "no such file",
            remedy=f"bring that code over by [[image.patch]], or {self.closed_by.remedy}",
        )
