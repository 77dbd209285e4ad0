"""Which findings a manifest accepts, each by its identity; the others are an open closure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

from builder.errors import BuildError, Message
from builder.graft.findings import LostModule, LostName, NotInstalled, UnknownModelType
from builder.graft.override_findings import (
    BrokenCall,
    BrokenOverride,
    DeadOverride,
    LostMember,
    OnlyDeclared,
)
from builder.graft.table_findings import MissingEntries, UnnamedInCode
from builder.identities import WITHOUT_DONORS, accepting, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from builder.graft.findings import Finding
    from builder.image_section import Accept

Acceptable: TypeAlias = (
    DeadOverride
    | BrokenOverride
    | LostMember
    | BrokenCall
    | OnlyDeclared
    | MissingEntries
    | UnnamedInCode
    | LostName
    | LostModule
    | NotInstalled
    | UnknownModelType
)
"""Findings about what may never run, or may be meant. With any other no container starts."""


@dataclass(frozen=True, slots=True)
class StaleAcceptance:
    """An entry that accepts what the check does not find; `near` is a finding of a like name."""

    place: str
    finding: str
    near: str

    @property
    def message(self) -> Message:
        """The entry, and that it has to go."""
        return Message(
            place=self.place,
            what="this accepts a finding that there is not",
            expected="a finding of the closure check",
            found=f"none named {self.finding}",
            remedy=f"did you mean {self.near}? If not, remove this [[image.accept]]"
            if self.near
            else "remove this [[image.accept]]: what it accepted is no more",
        )


def unaccepted(
    findings: Sequence[Finding],
    accepts: Sequence[Accept],
    place: Callable[[str], str],
    *,
    with_donors: bool = True,
) -> tuple[Finding, ...]:
    """The findings that no entry accepts, then the entries that accept none.

    While anything is open that cannot be accepted, the check may not have seen all, and no entry is
    told; without donors only those whose finding needs none.
    """
    accepted = {item.finding for item in accepts}
    left = [item for item in findings if _name(item) not in accepted]
    if "" in map(_name, left):
        return tuple(left)
    there, names = set(map(_name, findings)), [*map(_name, left)]
    stale = (
        StaleAcceptance(place(f"image.accept[{number}]"), item.finding, _near(item.finding, names))
        for number, item in enumerate(accepts)
        if item.finding not in there and (with_donors or kind_of(item.finding) in WITHOUT_DONORS)
    )
    return (*left, *stale)


def offered(finding: Finding) -> Message:
    """A finding's message; with the lines that accept it, if that is possible."""
    message = finding.message
    if not isinstance(finding, Acceptable):
        return message
    lines = accepting(finding.identity)
    return replace(
        message,
        remedy=f"{message.remedy}\nor accept it as it is, with a reason:\n{lines}",
    )


@dataclass(eq=False)
class ClosureError(BuildError):
    """The assembled image would fail in a container, or a failure is accepted that is none."""

    findings: tuple[Finding, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per finding, in the findings' order."""
        return tuple(map(offered, self.findings))


def _name(finding: Finding) -> str:
    """A finding's identity; empty if nobody can accept it."""
    return finding.identity if isinstance(finding, Acceptable) else ""


def _near(name: str, names: Sequence[str]) -> str:
    return next(iter(get_close_matches(name, names, n=1, cutoff=0.8)), "")
