"""Values put into cluster.toml, by its owner's leave: everything else in it stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.edges.disk import write_whole
from builder.edges.manifest_errors import (
    ManifestChangedError,
    ManifestNotEditableError,
    ManifestNotWritableError,
)
from builder.read.edit import NotEditableError, with_text_value
from builder.read.problems import loc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from builder.read.lines import Loc
    from builder.read.loaded import LoadedManifest


@dataclass(frozen=True, slots=True)
class Edit:
    """A text value at a place; a new key stands right after its sibling `after`."""

    loc: Loc
    value: str
    after: str


def edited_manifest(loaded: LoadedManifest, edits: Iterable[Edit]) -> bytes:
    """The manifest's bytes with these values; ManifestNotEditableError if that is beyond us."""
    text = loaded.data.decode()
    for edit in edits:
        try:
            text = with_text_value(text, edit.loc, edit.value, after=edit.after)
        except NotEditableError as error:
            place = loaded.place(loc_text(edit.loc))
            raise ManifestNotEditableError(place, str(edit.loc[-1]), edit.value) from error
    return text.encode()


def write_manifest(loaded: LoadedManifest, data: bytes) -> None:
    """Put other bytes in the place of the manifest's, all of them or none; links stay links.

    Raises ManifestChangedError when the file is not the one that was read, and
    ManifestNotWritableError.
    """
    try:
        write_whole(loaded.path, _if_unchanged(loaded, data))
    except OSError as error:
        raise ManifestNotWritableError(loaded.name, error.strerror or str(error)) from error


def _if_unchanged(loaded: LoadedManifest, data: bytes) -> Iterator[bytes]:
    """The new bytes; then a last look at the file whose place they are about to take."""
    yield data
    if loaded.path.read_bytes() != loaded.data:
        raise ManifestChangedError(loaded.name)
