"""Failures that show only where the core meets the disk: sources, stale locks, other bytes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from builder.errors import BuildError, LockError, ManifestError, Message
from builder.lock import FORMATS, Formats

if TYPE_CHECKING:
    from builder.differences import Difference
    from builder.pinpoint import Spot


@dataclass(eq=False)
class OwnFileChangedError(BuildError):
    """One of our own files is not the one that was there a moment ago."""

    path: str

    template = Message(
        place="{path}",
        what="the file changed while it was read",
        expected="the bytes it had when the manifest was read",
        found="other bytes, or no file",
        remedy="run it again when nothing writes the file",
    )


@dataclass(eq=False)
class CheckpointConfigError(BuildError):
    """The model's config.json does not say which architectures it is of."""

    path: str
    found: str

    template = Message(
        place="{path}",
        what="the checkpoint's architectures cannot be read",
        expected='a JSON object with "architectures": ["NameForCausalLM"]',
        found="{found}",
        remedy="point [model] at a folder or a repository with the checkpoint's own config.json",
    )


@dataclass(eq=False)
class StaleSchemaError(ManifestError):
    """The committed JSON Schema is not that of the manifest's models."""

    path: str

    template = Message(
        place="{path}",
        what="the JSON Schema is not that of this sparklock's manifests",
        expected="what `inv schema` writes",
        found="another text, or no file",
        remedy="inv schema, then commit the file",
    )


@dataclass(eq=False)
class StaleLockError(LockError):
    """The lock does not belong to the manifest and the files beside it.

    `moving` is the input that `inv lock --update` was to move.
    """

    place: str
    changes: tuple[Difference, ...]
    moving: str = ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per input that changed since the lock was written."""
        remedy = "inv lock, then review the difference of lockfile.json"
        if self.moving:
            remedy = (
                f"inv lock first; or, if what you edited needs the new {self.moving} already: "
                f"inv pin {self.moving}, then inv lock"
            )
        return tuple(
            Message(
                place=self.place,
                what=f"the lock is stale: {change.path} changed",
                expected=f"{change.before} (locked)",
                found=str(change.after),
                remedy=remedy,
            )
            for change in self.changes
        )


@dataclass(eq=False)
class OutputsDifferError(LockError):
    """The same inputs gave another image than the lock says."""

    place: str
    changes: tuple[Difference, ...]
    spot: Spot | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per part that came out otherwise; before them, where they differ first.

        That can be told when the store still has what the lock names.
        """
        remedy = (
            "if the lock was edited: inv lock writes the right one; else sparklock is "
            "broken: compare `inv lock` on another machine, and report the difference"
        )
        told = tuple(
            Message(
                place=self.place,
                what=f"building gave another {change.path} than the lock says",
                expected=f"{change.before} (locked)",
                found=str(change.after),
                remedy=remedy,
            )
            for change in self.changes
        )
        if self.spot is None:
            return told
        first = Message(
            place=self.place,
            what=f"the image differs first in {self.spot.text()}",
            expected=f"{self.spot.before} (as locked)",
            found=self.spot.after,
            remedy=remedy,
        )
        return first, *told


@dataclass(eq=False)
class NotReproducibleError(BuildError):
    """Another process made another image of the same inputs; both are kept in `place`."""

    place: str
    changes: tuple[Difference, ...]
    spot: Spot | None

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message: where they differ first, both values, and where both can be looked at."""
        change = self.changes[0]
        where = change.path if self.spot is None else self.spot.text()
        before = change.before if self.spot is None else self.spot.before
        after = change.after if self.spot is None else self.spot.after
        return (
            Message(
                place=self.place,
                what=f"the second assembly differs from the lock, first in {where}",
                expected=f"{before} (locked)",
                found=str(after),
                remedy="this is a fault of sparklock: report it with both assemblies, which are "
                f"kept; diffoscope {self.place}/locked {self.place}/again shows all of it",
            ),
        )


@dataclass(eq=False)
class SecondAssemblyError(BuildError):
    """The process that should assemble the image again did not come to an end."""

    place: str
    _: KW_ONLY
    found: str
    said: str

    template = Message(
        place="{place}",
        what="the second assembly failed",
        expected="exit status 0",
        found="{found}",
        detail="{said}",
        remedy="run it again; if it fails so again, report this text",
    )


@dataclass(eq=False)
class OtherInputMovedError(LockError):
    """Moving one input would change what the lock says of another one."""

    place: str
    name: str
    changes: tuple[Difference, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per value of another input."""
        return tuple(
            Message(
                place=self.place,
                what=f"moving {self.name} would change another input too: {change.path}",
                expected=f"{change.before} (locked)",
                found=str(change.after),
                remedy="nothing was written; inv lock, review what else moved, then again",
            )
            for change in self.changes
        )


@dataclass(eq=False)
class OtherFormatsError(LockError):
    """The lock was written for byte formats that this sparklock does not write."""

    place: str
    locked: Formats

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with the versions of both."""
        return (
            Message(
                place=self.place,
                what="the lock is of other byte formats",
                expected=f"layer {FORMATS.layer}, config {FORMATS.config}",
                found=f"layer {self.locked.layer}, config {self.locked.config}",
                remedy="use the sparklock that wrote it, or `inv lock` to move to this one's",
            ),
        )
