"""What can be wrong with an archive of images as a whole."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final

from builder.errors import BuildError, Message

_MAKE_ONE: Final = (
    "make one with: docker save IMAGE -o FILE, or skopeo copy docker://IMAGE oci-archive:FILE"
)


@dataclass(eq=False)
class MissingArchiveError(BuildError):
    """There is no archive at the path; `found` says what is there."""

    place: str
    _: KW_ONLY
    found: str

    template = Message(
        place="{place}",
        what="no archive of an image here",
        expected="a file that docker save or skopeo wrote",
        found="{found}",
        remedy=_MAKE_ONE,
    )


@dataclass(eq=False)
class DamagedArchiveError(BuildError):
    """The file cannot be read as an archive; `entry` is the member it happened at or after."""

    place: str
    _: KW_ONLY
    entry: str
    reason: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """Where, and why."""
        return (
            Message(
                place=f"{self.place}, at {self.entry!r}" if self.entry else self.place,
                what="the archive cannot be read",
                expected="a whole tar archive, plain or compressed with gzip or zstd",
                found=self.reason,
                remedy=f"get the archive again; {_MAKE_ONE}",
            ),
        )


@dataclass(eq=False)
class IncompleteArchiveError(BuildError):
    """The archive lacks a member that an archive of an image has; `members` are some it has."""

    place: str
    _: KW_ONLY
    missing: str
    members: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """What it lacks."""
        return (
            Message(
                place=self.place,
                what="the archive is not that of an image, or not all of it",
                expected=self.missing,
                found=", ".join(self.members) or "an empty archive",
                remedy=_MAKE_ONE,
            ),
        )
