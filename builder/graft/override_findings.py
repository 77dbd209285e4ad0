"""What the closure check finds about classes and calls: they worked where the file comes from.

`identity` is the name by which a manifest accepts a finding: builder/identities.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import Message
from builder.identities import Kind, identity

if TYPE_CHECKING:
    from builder.graft.findings import DonorFile


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a finding: `file` is a tree path, `symbol` the class, method or function.

    `module` is the file's dotted module name. `donor` is the donor that the file comes from; empty
    for a file of the base, which another grafted file breaks.
    """

    file: str
    line: int
    module: str
    symbol: str
    donor: str

    @property
    def place(self) -> str:
        """The place as an error names it."""
        return f"/{self.file}:{self.line}"

    @property
    def reference(self) -> str:
        """The tree in which it works, as a sentence names it."""
        return f"donor {self.donor}" if self.donor else "the base as it was"

    def identity(self, kind: Kind, *parts: str) -> str:
        """A finding's identity."""
        return identity(kind, f"{self.module}:{self.symbol}", *parts)

    def remedy(self, closed_by: DonorFile | None, otherwise: str) -> str:
        """The way out, when a donor's file is one, and when none is."""
        return f"{closed_by.remedy}, or {otherwise}" if closed_by else otherwise


@dataclass(frozen=True, slots=True)
class DeadOverride:
    """A member that a class overrides, and that its base class in the image does not have.

    `base` is the base class as `module:Class`, and `others` what else of that class differs.
    """

    where: Where
    member: str
    base: str
    others: tuple[str, ...]
    closed_by: DonorFile | None

    @property
    def identity(self) -> str:
        """`override MODULE:CLASS.MEMBER of BASE`."""
        return self.where.identity(Kind.OVERRIDE, "of", self.base)

    @property
    def message(self) -> Message:
        """The override, and the base class that never calls it."""
        return Message(
            place=self.where.place,
            what=f"{self.where.symbol} overrides what the assembled image's {self.base} does not "
            "have, so it is never called",
            expected=f"{self.base} to have {self.member}, as in {self.where.reference}",
            found="a class without it"
            + (f"; it also differs in {', '.join(self.others)}" if self.others else ""),
            remedy=self.where.remedy(
                self.closed_by, "change the base class or the override by [[image.patch]]"
            ),
        )


@dataclass(frozen=True, slots=True)
class BrokenOverride:
    """An override that a call fit for the image's base class breaks; `reasons` say how."""

    where: Where
    member: str
    base: str
    has: str
    wanted: str
    reasons: tuple[str, ...]
    closed_by: DonorFile | None

    @property
    def identity(self) -> str:
        """`signature MODULE:CLASS.MEMBER of BASE: REASON, REASON`."""
        return self.where.identity(Kind.SIGNATURE, "of", f"{self.base}: {', '.join(self.reasons)}")

    @property
    def message(self) -> Message:
        """Both signatures, and what of a call the override refuses."""
        return Message(
            place=self.where.place,
            what=f"{self.where.symbol} cannot stand for that of the assembled image's {self.base}: "
            f"it {', '.join(self.reasons)}",
            expected=f"{self.member} as {self.wanted}, which callers in the image go by",
            found=self.has,
            remedy=self.where.remedy(self.closed_by, "adapt the override by [[image.patch]]"),
        )


@dataclass(frozen=True, slots=True)
class LostMember:
    """Something that a class or module has in the reference, and not in the image.

    `used` is how the text writes it, `holder` where it should be, as `module:Class` or `module`.
    """

    where: Where
    used: str
    holder: str
    closed_by: DonorFile | None

    @property
    def identity(self) -> str:
        """`member MODULE:SYMBOL USED of HOLDER`."""
        return self.where.identity(Kind.MEMBER, self.used, "of", self.holder)

    @property
    def message(self) -> Message:
        """The use, and what should have it."""
        within = f"{self.where.symbol} uses" if self.where.symbol else "uses"
        return Message(
            place=self.where.place,
            what=f"{within} {self.used}, which the assembled image's {self.holder} does not have",
            expected=f"{self.holder} to have {self.used.rpartition('.')[2]}, as in "
            f"{self.where.reference}",
            found="no such attribute, set or inherited",
            remedy=self.where.remedy(self.closed_by, "adapt the use by [[image.patch]]"),
        )


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """A call that what is called in the image refuses; `reasons` say why."""

    where: Where
    called: str
    target: str
    wanted: str
    reasons: tuple[str, ...]
    closed_by: DonorFile | None

    @property
    def identity(self) -> str:
        """`call MODULE:SYMBOL of TARGET: REASON, REASON`."""
        return self.where.identity(Kind.CALL, "of", f"{self.target}: {', '.join(self.reasons)}")

    @property
    def message(self) -> Message:
        """The call, the signature that it meets, and what does not fit."""
        within = f"{self.where.symbol} calls" if self.where.symbol else "calls"
        return Message(
            place=self.where.place,
            what=f"{within} {self.called} as {self.where.reference} has it, but {self.target} of "
            f"the assembled image {', '.join(self.reasons)}",
            expected=f"a call that fits {self.wanted}",
            found="one that does not",
            remedy=self.where.remedy(self.closed_by, "adapt the call by [[image.patch]]"),
        )


@dataclass(frozen=True, slots=True)
class OnlyDeclared:
    """A method that a class inherits ready in the reference, and only declared in the image."""

    where: Where
    member: str
    base: str
    closed_by: DonorFile | None

    @property
    def identity(self) -> str:
        """`inherited MODULE:CLASS MEMBER of BASE`."""
        return self.where.identity(Kind.INHERITED, self.member, "of", self.base)

    @property
    def message(self) -> Message:
        """The method, and the class of the image that leaves it to others."""
        return Message(
            place=self.where.place,
            what=f"{self.where.symbol} does not define {self.member}, which the assembled image's "
            f"{self.base} only declares",
            expected=f"{self.base} to implement {self.member}, as in {self.where.reference}, or "
            f"{self.where.symbol} to do it",
            found="a body that does nothing",
            remedy=self.where.remedy(
                self.closed_by, f"add {self.member} to the class by [[image.patch]]"
            ),
        )
