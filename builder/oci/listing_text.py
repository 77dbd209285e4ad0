"""The text of a layer's listing, so that a layer which was read once need not be read again.

JSON, one line for what is no entry and one for each entry, in ASCII. `kept` below is what the text
is a cache of: where it cannot be read, the layer can.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from builder.digest import Digest
from builder.oci.layers import HardLink, LayerListing
from builder.oci.tree import Entry, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from builder.oci.model import Layer

LISTING_FORMAT: Final = 2
"""Of the text; a new one when LayerListing or Entry mean something else."""

_PIECE_LINES = 1000


def listing_text(listing: LayerListing) -> Iterator[bytes]:
    """The listing without its layer, in pieces."""
    yield _line(
        [
            [[link.path, link.target] for link in listing.links],
            list(listing.whiteouts),
            list(listing.opaques),
            sorted(listing.unkept),
            listing.taken,
        ]
    )
    lines = [_line(_fields(entry)) for entry in listing.entries]
    for start in range(0, len(lines), _PIECE_LINES):
        yield b"".join(lines[start : start + _PIECE_LINES])


def parse_listing(chunks: Iterable[bytes], layer: Layer) -> LayerListing:
    """The listing of a layer that listing_text wrote."""
    lines = _lines(chunks)
    links, whiteouts, opaques, unkept, taken = json.loads(next(lines))
    digest = layer.descriptor.digest
    return LayerListing(
        layer=layer,
        entries=tuple(_entry(json.loads(line), digest) for line in lines),
        links=tuple(HardLink(path, target) for path, target in links),
        whiteouts=tuple(whiteouts),
        opaques=tuple(opaques),
        unkept=frozenset(unkept),
        taken=taken,
    )


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _fields(entry: Entry) -> list[object]:
    return [
        *(entry.path, entry.kind.value, entry.mode, entry.uid, entry.gid, entry.mtime),
        *(entry.size_bytes, entry.link, entry.content, entry.head.decode("latin-1")),
    ]


def _entry(fields: list[object], layer: Digest) -> Entry:
    path, kind, mode, uid, gid, mtime, size_bytes, link, content, head = fields
    return Entry(
        path=str(path),
        kind=Kind(kind),
        mode=_whole(mode),
        uid=_whole(uid),
        gid=_whole(gid),
        mtime=_whole(mtime),
        size_bytes=_whole(size_bytes),
        layer=layer,
        link=str(link),
        content=None if content is None else Digest(str(content)),
        head=str(head).encode("latin-1"),
    )


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
