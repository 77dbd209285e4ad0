"""Whether the assembled image closes: imports, registrations, commands and version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from builder.graft.commands import Launch
    from builder.graft.findings import Finding
    from builder.graft.packages import Read
    from builder.graft.pick import Pick
    from builder.manifest import Register
    from builder.oci.tree import ImageTree


@dataclass(frozen=True, slots=True)
class OurFile:
    """A file that we write: an edited table, or one of our own files. `path` is a tree path."""

    path: str
    mode: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ClosureInputs:
    """All that decides whether an image closes.

    `read` gives the content of base and donor files and of picks. `tables` are the edited
    modules and `files` our own files; a later one of equal path wins, and picks come first.
    `donors` may be empty (a build from the lock alone): then no remedy can name a donor's file.
    """

    base: ImageTree
    read: Read
    launch: Launch
    vllm_version: str
    picks: tuple[Pick, ...] = ()
    tables: tuple[OurFile, ...] = ()
    files: tuple[OurFile, ...] = ()
    registers: tuple[Register, ...] = ()
    architectures: tuple[str, ...] = ()
    donors: Mapping[str, ImageTree] = field(default_factory=dict)


def check_closure(inputs: ClosureInputs) -> tuple[Finding, ...]:
    """Everything that would fail in a container of the image; empty if it closes.

    Findings come in a fixed order: version, imports by file and line, registrations,
    architectures, commands. The caller raises ClosureError(findings) if there are any. Raises
    PackageNotFoundError and the like when the package itself cannot be found.
    """
    raise NotImplementedError
