"""What the closure check finds, one class each: facts as fields, and the Message they make.

Those of commands stand in builder/graft/command_findings.py.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Protocol

from builder.errors import Message
from builder.identities import Kind, identity


def register_text(package: str, file: str, table: str, entries: str) -> str:
    """An [[image.register]] as its lines stand in cluster.toml, without a newline at the end."""
    quote = "'" if '"' in table else '"'
    return (
        f'[[image.register]]\npackage = "{package}"\nfile = "{file}"\n'
        f"table = {quote}{table}{quote}\nentries = {entries}"
    )


class Finding(Protocol):
    """One thing that would fail in a container."""

    @property
    def message(self) -> Message:
        """The finding as a person reads it."""


@dataclass(frozen=True, slots=True)
class DonorFile:
    """A file that a donor has; `file` is relative to the package's folder.

    With `replaces` the base has another version of it, so the graft reaches further.
    """

    donor: str
    file: str
    replaces: bool

    @property
    def remedy(self) -> str:
        """The edit of the manifest that takes the file."""
        note = ", in place of the base's own" if self.replaces else ""
        return f'add "{self.file}" to the [[image.graft]] files of donor {self.donor}{note}'


@dataclass(frozen=True, slots=True)
class OpenImport:
    """An import of an added file that fails; `symbol` is empty when the module is missing.

    `file` is a tree path, `module` is absolute and dotted, and `closed_by` the donor's file that
    would close the import, if any donor has it. `donor` is where the added file comes from; it is
    empty for one of our own.
    """

    file: str
    line: int
    module: str
    symbol: str
    closed_by: DonorFile | None
    donor: str

    @property
    def message(self) -> Message:
        """The import, what is missing, and which donor file would close it."""
        asked = f"{self.symbol} of {self.module}" if self.symbol else self.module
        return Message(
            place=f"/{self.file}:{self.line}",
            what=f"imports {asked}, which the assembled image does not have",
            expected=f"{self.module} to define {self.symbol}"
            if self.symbol
            else f"a module {self.module}",
            found="a module without that name" if self.symbol else "no such module",
            remedy=self._remedy(),
        )

    def _remedy(self) -> str:
        if self.closed_by:
            return self.closed_by.remedy
        if not self.donor:
            return (
                "no donor has it: use a base that has it, or take back the [[image.file]], "
                "[[image.plugin]] or [[image.patch]] that asks for it"
            )
        return (
            "no donor has it: use a base whose version fits the grafted files, or graft them from "
            "a donor that is nearer to the base"
        )


@dataclass(frozen=True, slots=True)
class NotInstalled:
    """An import, by a grafted file, of a module beside its package that only the donor has.

    `importer` is the dotted name of the grafted file, whose tree path is `file`; `has_top` tells
    that the image has the module's top package, and so an older or newer one.
    """

    file: str
    line: int
    module: str
    importer: str
    donor: str
    has_top: bool

    @property
    def identity(self) -> str:
        """`installed MODULE in IMPORTER`."""
        return identity(Kind.INSTALLED, self.module, "in", self.importer)

    @property
    def message(self) -> Message:
        """The import, and whether the distribution is missing or only another version."""
        top = self.module.partition(".")[0]
        return Message(
            place=f"/{self.file}:{self.line}",
            what=f"imports {self.module}, which only donor {self.donor} has installed",
            expected=f"a module {self.module} in a site folder of the image",
            found=f"{top} without that module: another version than the donor's"
            if self.has_top
            else f"no {top} at all",
            remedy=f"use a base that has {top} as the donor has it, or graft the file from a "
            "donor that is nearer to the base",
        )


@dataclass(frozen=True, slots=True)
class LostName:
    """A name that a file of the base imports, and that a module we replace no longer has.

    `importer` is the dotted name of that file, whose tree path is `file`. `replaced` is the tree
    path of the module, `donor` where its new version comes from; it is empty for a file of our own.
    """

    file: str
    line: int
    module: str
    symbol: str
    importer: str
    replaced: str
    donor: str
    closed_by: DonorFile | None

    @property
    def identity(self) -> str:
        """`lost MODULE:NAME in IMPORTER`."""
        return identity(Kind.LOST, f"{self.module}:{self.symbol}", "in", self.importer)

    @property
    def message(self) -> Message:
        """The base's import, and the file that breaks it."""
        ours = f"the file of donor {self.donor}" if self.donor else "our own file"
        return Message(
            place=f"/{self.file}:{self.line}",
            what=f"imports {self.symbol} of {self.module}, which is lost when {ours} replaces it",
            expected=f"/{self.replaced} to define {self.symbol}, as the base's own does",
            found="a module without that name",
            remedy=self.closed_by.remedy
            if self.closed_by
            else f"leave /{self.replaced} as it is, or use a donor that is nearer to the base",
        )


@dataclass(frozen=True, slots=True)
class LostModule:
    """An import of the base's own file that fails since a diff deletes a module.

    `deleted` is the module's tree path; `symbol` is empty when the module itself is imported.
    `importer` is the dotted name of the file that imports it.
    """

    file: str
    line: int
    module: str
    symbol: str
    importer: str
    deleted: str

    @property
    def identity(self) -> str:
        """`lost MODULE:NAME in IMPORTER`, or `lost MODULE in IMPORTER`."""
        lost = f"{self.module}:{self.symbol}" if self.symbol else self.module
        return identity(Kind.LOST, lost, "in", self.importer)

    @property
    def message(self) -> Message:
        """The base's import, and the file that it needs."""
        asked = f"{self.symbol} of {self.module}" if self.symbol else self.module
        return Message(
            place=f"/{self.file}:{self.line}",
            what=f"imports {asked}, which is lost when a diff deletes its file",
            expected=f"/{self.deleted}, as the base has it",
            found="no such file",
            remedy="leave that file in the diff, or change this import by the same diff",
        )


@dataclass(frozen=True, slots=True)
class UnreadableModule:
    """A module that the check needs, and that the parser refuses."""

    file: str
    line: int
    reason: str

    @property
    def message(self) -> Message:
        """The parser's words, and which Python spoke them."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return Message(
            place=f"/{self.file}:{self.line}" if self.line else f"/{self.file}",
            what="the module cannot be read, so its imports cannot be checked",
            expected=f"Python source in UTF-8, as Python {version} parses it",
            found=self.reason,
            remedy="correct or replace the file, or run sparklock with the image's own Python "
            "version if the module needs a newer one",
        )


@dataclass(frozen=True, slots=True)
class MissingClass:
    """A registration that leads nowhere; `near` are classes of the module with like names."""

    place: str
    key: str
    module: str
    symbol: str
    has_module: bool
    near: tuple[str, ...]
    closed_by: DonorFile | None

    @property
    def message(self) -> Message:
        """The registration, and whether the module or the class is missing."""
        found = f"no module {self.module}"
        if self.has_module:
            found = f"the module has no {self.symbol}"
        if self.near:
            found += f"; near names: {', '.join(self.near)}"
        return Message(
            place=self.place,
            what=f"{self.key} is registered, but its class is not in the assembled image",
            expected=f"{self.module}:{self.symbol}",
            found=found,
            remedy=self.closed_by.remedy
            if self.closed_by
            else "correct the module or the class, or graft the file that has it",
        )


@dataclass(frozen=True, slots=True)
class DonorEntry:
    """A registration that a donor has."""

    donor: str
    table: str
    value: tuple[str, str]


@dataclass(frozen=True, slots=True)
class UnknownArchitecture:
    """An architecture of the checkpoint that the assembled registry does not have.

    `registry` is the tree path of the registry and `file` the same relative to the package.
    """

    architecture: str
    registry: str
    package: str
    file: str
    near: tuple[str, ...]
    known_by: DonorEntry | None

    @property
    def message(self) -> Message:
        """The architecture, near names, and the registration that a donor has."""
        return Message(
            place=f"/{self.registry}",
            what=f"the checkpoint's architecture {self.architecture} is not registered",
            expected=f"{self.architecture} as a key of one of the registry's tables",
            found=f"near names: {', '.join(self.near)}" if self.near else "no name like it",
            remedy=self._remedy(),
        )

    def _remedy(self) -> str:
        if self.known_by is None:
            return (
                "add [[image.register]] for it, and [[image.graft]] from a donor that has the "
                "model; no donor of this manifest registers it"
            )
        known = self.known_by
        value = json.dumps(list(known.value), ensure_ascii=False)
        entries = f"{{ {self.architecture} = {value} }}"
        return (
            f"[[image.graft]] the model's files from donor {known.donor}, and add as it has it\n"
            + register_text(self.package, self.file, known.table, entries)
        )


@dataclass(frozen=True, slots=True)
class DonorValue:
    """An entry that a donor has in a table; `toml` is its value as a manifest writes it."""

    donor: str
    table: str
    toml: str


@dataclass(frozen=True, slots=True)
class UnknownModelType:
    """A model type of the checkpoint for which the assembled image has no configuration class.

    `looked_at` are the tree paths of the tables that could have it; `file` is vLLM's own, relative
    to the package.
    """

    model_type: str
    looked_at: tuple[str, ...]
    package: str
    file: str
    near: tuple[str, ...]
    known_by: DonorValue | None

    @property
    def identity(self) -> str:
        """`model_type NAME`."""
        return identity(Kind.MODEL_TYPE, self.model_type)

    @property
    def message(self) -> Message:
        """The model type, where it was looked for, and the entry that a donor has."""
        near = f"; near names: {', '.join(self.near)}" if self.near else ""
        return Message(
            place=f"/{self.looked_at[0]}",
            what=f"the checkpoint's model_type {self.model_type} has no configuration class, so "
            "config.json cannot be loaded",
            expected=f"{self.model_type} as a key of vLLM's table or of that of transformers",
            found=f"in neither: looked at {', '.join(f'/{path}' for path in self.looked_at)}{near}",
            remedy=self._remedy(),
        )

    def _remedy(self) -> str:
        if self.known_by is None:
            return "use a base whose transformers knows it, or a donor whose vLLM has its class"
        known = self.known_by
        entries = f'{{ "{self.model_type}" = {known.toml} }}'
        return (
            f"[[image.graft]] the file of that class from donor {known.donor}, and add as it has "
            f"it\n{register_text(self.package, self.file, known.table, entries)}"
        )


@dataclass(frozen=True, slots=True)
class WrongVersion:
    """The assembled image has another version of a package than the manifest says."""

    place: str
    package: str
    wanted: str
    installed: str

    @property
    def message(self) -> Message:
        """Both versions."""
        return Message(
            place=self.place,
            what=f"the assembled image has another version of {self.package}",
            expected=self.wanted,
            found=self.installed,
            remedy=f'write version = "{self.installed}", or use a base that has {self.wanted}',
        )


@dataclass(frozen=True, slots=True)
class OtherFailure:
    """A failure that stopped one part of the check, beside the findings of the others."""

    message: Message
