"""Failures that show only where the core meets the disk: sources, stale locks, other bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import BuildError, LockError, ManifestError, Message
from builder.lock import FORMATS, Formats

if TYPE_CHECKING:
    from builder.differences import Difference


@dataclass(eq=False)
class UnsupportedSourceError(ManifestError):
    """The manifest names a kind of source that this version cannot read."""

    place: str
    source: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message with a way to get an archive."""
        name = self.source.partition(":")[2]
        return (
            Message(
                place=self.place,
                what="this version of sparklock does not read an engine's own images",
                expected="oci:DIR, archive:FILE or a registry's HOST/NAME",
                found=self.source,
                remedy=f'docker save {name} -o FILE, write source = "archive:FILE" without a '
                "digest, and `inv lock` says which digest to add",
            ),
        )


@dataclass(eq=False)
class OwnFileChangedError(BuildError):
    """One of our own files is not the one that was there a moment ago."""

    path: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.path,
                what="the file changed while it was read",
                expected="the bytes it had when the manifest was read",
                found="other bytes, or no file",
                remedy="run it again when nothing writes the file",
            ),
        )


@dataclass(eq=False)
class CheckpointConfigError(BuildError):
    """The model's config.json does not say which architectures it is of."""

    path: str
    found: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.path,
                what="the checkpoint's architectures cannot be read",
                expected='a JSON object with "architectures": ["NameForCausalLM"]',
                found=self.found,
                remedy="point [model] files at a folder with the checkpoint's own config.json",
            ),
        )


@dataclass(eq=False)
class StaleSchemaError(ManifestError):
    """The committed JSON Schema is not that of the manifest's models."""

    path: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.path,
                what="the JSON Schema is not that of this sparklock's manifests",
                expected="what `inv schema` writes",
                found="another text, or no file",
                remedy="inv schema, then commit the file",
            ),
        )


@dataclass(eq=False)
class StaleLockError(LockError):
    """The lock does not belong to the manifest and the files beside it."""

    place: str
    changes: tuple[Difference, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per input that changed since the lock was written."""
        return tuple(
            Message(
                place=self.place,
                what=f"the lock is stale: {change.path} changed",
                expected=f"{change.before} (locked)",
                found=str(change.after),
                remedy="inv lock, then review the difference of lockfile.json",
            )
            for change in self.changes
        )


@dataclass(eq=False)
class OutputsDifferError(LockError):
    """The same inputs gave another image than the lock says."""

    place: str
    changes: tuple[Difference, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message per part that came out otherwise."""
        return tuple(
            Message(
                place=self.place,
                what=f"building gave another {change.path} than the lock says",
                expected=f"{change.before} (locked)",
                found=str(change.after),
                remedy="if the lock was edited: inv lock writes the right one; else sparklock is "
                "broken: compare `inv lock` on another machine, and report the difference",
            )
            for change in self.changes
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
