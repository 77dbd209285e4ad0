"""Stacking layers: what a container sees of them, by the OCI rules for whiteouts."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from builder.oci.errors import DanglingHardLinkError
from builder.oci.layers import read_layers
from builder.oci.limits import MAX_ENTRIES, TooManyEntriesError
from builder.oci.tree import Entry, ImageTree, Kind
from builder.sources import EngineImage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from builder.digest import Digest
    from builder.oci.layers import Keep, LayerListing
    from builder.oci.model import Layer
    from builder.sources import Blobs, ImageSource


def stack(listings: Iterable[LayerListing]) -> ImageTree:
    """The filesystem of the layers, bottom first.

    Whiteouts and opaque markers hide what lies below, never their own layer. A file or link that
    replaces a directory removes its children. A path below a symlink or file replaces that by a
    directory, as overlay does; the link is not followed. Raises DanglingHardLinkError or
    TooManyEntriesError.
    """
    root, made = _Node(None), 0
    for listing in listings:
        links = _linked(root, listing)
        _hide(root, listing)
        for entry in (*listing.entries, *links):
            made += root.place(entry)
            if made > MAX_ENTRIES:
                raise TooManyEntriesError(listing.layer.descriptor.digest)
    found = root.flat()
    return ImageTree({path: found[path] for path in sorted(found)})


def read_tree(
    source: ImageSource,
    layers: Iterable[Layer],
    *,
    keep: Keep,
    blobs: Blobs,
    seen: Callable[[Layer], None] = lambda _layer: None,
) -> ImageTree:
    """The stacked filesystem of an image, with the wanted files' bytes in `blobs`.

    Several layers are read at once; `seen` is called before each, in their order, from any thread.
    Bytes of kept files are there also when the path is a hard link, into its own layer or a lower.
    Raises what reading a layer and `stack` raise.
    """
    with closing(_listings(source, layers, keep=keep, blobs=blobs, seen=seen)) as found:
        listings = list(_few(found))
    again: dict[int, Keep] = {}
    wanted: set[str] = set()
    for index, listing in reversed(list(enumerate(listings))):
        if any(_lacks_content(entry) and entry.path in wanted for entry in listing.entries):
            again[index] = _also(frozenset(wanted), keep)
        wanted |= {link.target for link in listing.links if link.path in wanted or keep(link.path)}
    found = read_layers(
        source, [(listings[index].layer, also) for index, also in again.items()], blobs
    )
    for index, listing in zip(again, found, strict=True):
        listings[index] = listing
    return stack(listings)


def _listings(
    source: ImageSource,
    layers: Iterable[Layer],
    *,
    keep: Keep,
    blobs: Blobs,
    seen: Callable[[Layer], None],
) -> Generator[LayerListing]:
    if isinstance(source, EngineImage):
        yield from source.listings(layers, keep=keep, blobs=blobs)
    else:
        yield from read_layers(source, [(layer, keep) for layer in layers], blobs, seen)


def _few(listings: Iterable[LayerListing]) -> Iterator[LayerListing]:
    """The same listings, as long as an image may have so many entries."""
    taken = 0
    for listing in listings:
        taken += listing.taken
        if taken > MAX_ENTRIES:
            raise TooManyEntriesError(listing.layer.descriptor.digest)
        yield listing


def _also(paths: frozenset[str], keep: Keep) -> Keep:
    return lambda path: path in paths or keep(path)


def _lacks_content(entry: Entry) -> bool:
    return entry.kind is Kind.FILE and entry.content is None


_NO_CHILDREN: Final[dict[str, _Node]] = {}
"""Of every node without any, and never written to: most nodes are files."""


class _Node:
    """A path of the tree in the making; `entry` is None for a directory that no layer stated."""

    __slots__ = ("children", "entry")

    def __init__(self, entry: Entry | None) -> None:
        self.entry = entry
        self.children = _NO_CHILDREN

    def find(self, path: str) -> _Node | None:
        """The node at a path below this one, itself for the empty path."""
        node: _Node | None = self
        for part in path.split("/") if path else ():
            if node is None:
                return None
            node = node.children.get(part)
        return node

    def place(self, entry: Entry) -> int:
        """Put an entry at its path, in the place of what was there: how many paths are new."""
        node, here, made = self, "", 0
        *parents, name = entry.path.split("/")
        for part in parents:
            here = f"{here}/{part}" if here else part
            if part not in node.children:
                node.add(part, _Node(_implied(here, entry.layer)))
                made += 1
            node = node.children[part]
            if node.entry is not None and node.entry.kind is not Kind.DIRECTORY:
                node.entry = _implied(here, entry.layer)
        if name:
            if name not in node.children:
                node.add(name, _Node(None))
                made += 1
            node = node.children[name]
        if entry.kind is not Kind.DIRECTORY:
            node.children = _NO_CHILDREN
        node.entry = entry
        return made

    def add(self, name: str, node: _Node) -> None:
        """Put a new node below this one."""
        if self.children is _NO_CHILDREN:
            self.children = {}
        self.children[name] = node

    def flat(self) -> dict[str, Entry]:
        """Every entry below this node by path; the tree goes on the way, as memory is dear."""
        found: dict[str, Entry] = {}
        todo = [self]
        while todo:
            node = todo.pop()
            if node.entry is not None:
                found[node.entry.path] = node.entry
            todo.extend(node.children.values())
            node.children = _NO_CHILDREN
        return found


def _implied(path: str, layer: Digest) -> Entry:
    """A directory that a layer needs and does not state, as engines make it."""
    return Entry(path, Kind.DIRECTORY, mode=0o755, uid=0, gid=0, mtime=0, size_bytes=0, layer=layer)


def _linked(below: _Node, listing: LayerListing) -> tuple[Entry, ...]:
    """The files that hard links into lower layers name, before this layer hides any."""
    entries = []
    for link in listing.links:
        target = below.find(link.target)
        if target is None or target.entry is None or target.entry.kind is Kind.DIRECTORY:
            raise DanglingHardLinkError(
                listing.layer.descriptor.digest, path=link.path, target=link.target
            )
        entries.append(replace(target.entry, path=link.path))
    return tuple(entries)


def _hide(root: _Node, listing: LayerListing) -> None:
    for path in listing.opaques:
        directory = root.find(path)
        if directory is not None:
            directory.children = _NO_CHILDREN
    for path in listing.whiteouts:
        parent, _, name = path.rpartition("/")
        directory = root.find(parent)
        if directory is not None:
            directory.children.pop(name, None)
