"""Verdicts of the closure check on disk, in a folder that can be deleted at any time."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import builder
from builder.digest import digest_bytes, hex_of
from builder.edges.disk import write_whole

if TYPE_CHECKING:
    from builder.digest import Digest

KEPT: Final = 64
"""So many verdicts stay; a build needs one."""


class VerdictFolder:
    """A builder.graft.verdicts.Verdicts: one small file for each verdict."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def checker(self) -> str:
        """The digest of the sources that make a verdict; another version makes others."""
        sources = sorted(Path(builder.__file__).parent.rglob("*.py"))
        return digest_bytes(b"\0".join(path.read_bytes() for path in sources))

    def read(self, key: Digest) -> bytes | None:
        """What was kept under a key; None if nothing was, or it cannot be read."""
        try:
            return self._path(key).read_bytes()
        except OSError:
            return None

    def write(self, key: Digest, data: bytes) -> None:
        """Keep bytes under a key, and of older ones so many that they do not pile up."""
        with suppress(OSError):  # what cannot be kept is made again
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(key), [data])
            kept = sorted(self._folder.glob("verdict-*"), key=lambda path: path.stat().st_mtime)
            for path in kept[:-KEPT]:
                path.unlink(missing_ok=True)

    def _path(self, key: Digest) -> Path:
        return self._folder / f"verdict-{hex_of(key)}"
