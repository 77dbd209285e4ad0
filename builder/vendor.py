"""What building needs beside the base's layers, as files of the repository under readable names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from builder.digest import Digest, hex_of
from builder.edits import steps_by_target
from builder.lock import all_digests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.lock import Lock, LockedImage

SUMS: Final = "SHA256SUMS"
"""The list of our files, as `sha256sum -c` reads it; by it we know which are ours to remove."""

HELPERS: Final = {
    ".gitattributes": b"* -text\n",
    ".gitignore": b"!*\n",
}
"""Git must neither change line ends of these files, nor ignore folders such as `lib` above them."""

_LINE: Final = re.compile(r"([0-9a-f]{64})  (.+)")


def vendored(lock: Lock) -> dict[str, Digest]:
    """The files by path in the folder, sorted: `base/…`, and of each donor `donors/NAME/…`."""
    needed = all_digests(lock)
    found = {path: digest for path, digest in _named(lock.image) if digest in needed}
    rest = needed - set(found.values())
    found |= {f"other/{hex_of(digest)}": digest for digest in rest}
    return dict(sorted(found.items()))


def _named(image: LockedImage) -> Iterator[tuple[str, Digest]]:
    """Every input with a name; what a later edit of a file starts from is made, and none."""
    yield "base/manifest.json", image.base.manifest_digest
    yield "base/config.json", image.base.config_digest
    grafted = {pick.target for pick in image.picks}
    for pick in image.picks:
        yield f"donors/{pick.donor}{pick.source}", pick.digest
    for target, (first, *_) in steps_by_target(image.edits).items():
        if target not in grafted and first.before is not None:
            yield f"base/files{target}", first.before


def sums_text(files: Mapping[str, Digest]) -> bytes:
    """The list of files; sha256sum reads every path but one with a backslash."""
    lines = (f"{hex_of(digest)}  {path}\n" for path, digest in sorted(files.items()))
    return "".join(lines).encode()


def parse_sums(data: bytes) -> dict[str, Digest]:
    """The files of a list; lines that are none, and paths that lead out of the folder, are not."""
    found = {}
    for line in data.decode(errors="replace").split("\n"):
        match = _LINE.fullmatch(line)
        if match and not {"", ".", ".."} & set(match[2].split("/")):
            found[match[2]] = Digest(f"sha256:{match[1]}")
    return found
