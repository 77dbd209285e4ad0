"""The ways in which cluster.toml cannot be edited."""

from __future__ import annotations

from dataclasses import dataclass

from builder.errors import ManifestError, Message


@dataclass(eq=False)
class ManifestNotEditableError(ManifestError):
    """A value cannot be written without touching more of the text; `place` is the value's."""

    place: str
    key: str
    value: str

    template = Message(
        place="{place}",
        what="the value cannot be written here without changing more than itself",
        expected="a table in a plain layout",
        found="one that tomlkit would lay out anew",
        remedy='write it by hand: {key} = "{value}"',
    )


@dataclass(eq=False)
class ManifestChangedError(ManifestError):
    """Somebody else changed the manifest since it was read; nothing was written over that."""

    path: str

    template = Message(
        place="{path}",
        what="the manifest changed while its sources were asked",
        expected="the bytes that it had when it was read",
        found="other bytes; they stay as they are",
        remedy="run it again",
    )


@dataclass(eq=False)
class ManifestNotWritableError(ManifestError):
    """The manifest cannot be written; the old one is whole. `reason` is the system's."""

    path: str
    reason: str

    template = Message(
        place="{path}",
        what="the manifest cannot be written",
        expected="a folder in which files can be made and renamed",
        found="{reason}",
        remedy="make room or get permission, then run it again",
    )
