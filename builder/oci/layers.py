"""Layers as they come: one pass over the stored bytes lists, checks and keeps what is asked."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from builder.oci import untar
from builder.oci.errors import LayerError, MalformedLayerError, UnsafePathError
from builder.oci.limits import MAX_ENTRIES, MAX_PATH_BYTES, PathTooLongError, TooManyEntriesError
from builder.oci.parallel import in_parallel
from builder.oci.stream import drain, plain_tar
from builder.oci.tar import OPAQUE_NAME, WHITEOUT_PREFIX
from builder.oci.tree import HEAD_BYTES, Entry, ImageTree, Kind, SymlinkLoopError, parents

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from builder.digest import Digest
    from builder.oci.model import Layer
    from builder.oci.parallel import Wanted
    from builder.oci.untar import Member, TarStream
    from builder.sources import Blobs, ImageSource

    Keep: TypeAlias = Callable[[str], bool]
    """Whether to keep the content of the file at a tree path."""

_AUFS_PREFIX = ".wh..wh."
_KINDS = {
    untar.FILE: Kind.FILE,
    untar.DIRECTORY: Kind.DIRECTORY,
    untar.SYMLINK: Kind.SYMLINK,
}


@dataclass(frozen=True, slots=True)
class HardLink:
    """A hard link whose target stands in a layer below; both paths as in builder/oci/tree.py."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class LayerListing:
    """What one layer says.

    `entries` are in archive order, one per path (of duplicates the last), hard links inside the
    layer already as the files they name. `whiteouts` are the hidden paths, `opaques` the
    directories whose lower children are hidden. `unkept` are paths of files whose bytes a kept hard
    link needs and which were not kept: read again with these too (read_layers does). `taken`
    counts the archive's members.
    """

    layer: Layer
    entries: tuple[Entry, ...]
    links: tuple[HardLink, ...] = ()
    whiteouts: tuple[str, ...] = ()
    opaques: tuple[str, ...] = ()
    unkept: frozenset[str] = frozenset()
    taken: int = 0


def read_layer(
    chunks: Iterable[bytes],
    layer: Layer,
    *,
    keep: Keep,
    blobs: Blobs,
    place: str = "layer",
) -> LayerListing:
    """The listing of a layer from its stored bytes: plain tar, gzip or zstd.

    `place` is the layer's source, for errors about its stored bytes.
    Checks digest, size and diff_id. The bytes of regular files for whose path `keep` is true go to
    `blobs`, and their digest to the entry. Memory grows with the number of entries only.
    Raises DigestMismatchError, SizeMismatchError, TruncatedBlobError, DiffIdMismatchError,
    MalformedLayerError, UnsafePathError, PathTooLongError, TooManyEntriesError, LayerTooLargeError
    or UnsupportedCompressionError.
    """
    with closing(plain_tar(chunks, layer, place=place)) as plain:
        return list_layer(plain, layer, keep=keep, blobs=blobs)


def list_layer(plain: Iterator[bytes], layer: Layer, *, keep: Keep, blobs: Blobs) -> LayerListing:
    """As read_layer, of uncompressed bytes that the caller checks; they are read to their end.

    That is also so before any error about what they hold.
    """
    stream = untar.TarStream(plain)
    listing = _Listing(layer, stream, keep, blobs)
    try:
        for member in stream:
            listing.take(member)
    except untar.UntarError as error:
        drain(plain)
        digest = layer.descriptor.digest
        raise MalformedLayerError(digest, entry=error.entry, reason=error.reason) from error
    except LayerError:
        drain(plain)
        raise
    return listing.done()


def read_layers(
    source: ImageSource,
    wanted: Iterable[tuple[Layer, Keep]],
    blobs: Blobs,
    seen: Callable[[Layer], None] = lambda _layer: None,
) -> Generator[LayerListing]:
    """As read_layer, of each layer with what to keep of it, the bytes from a source.

    Several are read at once, at most AT_ONCE ahead of who takes the listings; `seen` is called
    before each, in their order, from any thread. One is read twice when a kept hard link needs it.
    Of several errors the first layer's is raised. Close the generator when it is not read out.
    """

    def read(item: tuple[Layer, Keep], still: Wanted) -> LayerListing:
        layer, keep = item
        listing = _read_once(source, layer, keep, blobs, still)
        if not listing.unkept:
            return listing
        also = listing.unkept
        return _read_once(source, layer, lambda path: path in also or keep(path), blobs, still)

    return in_parallel(list(wanted), read, begun=lambda item: seen(item[0]))


def read_layer_of(source: ImageSource, layer: Layer, *, keep: Keep, blobs: Blobs) -> LayerListing:
    """As read_layers, of one layer."""
    return next(read_layers(source, [(layer, keep)], blobs))


def _read_once(
    source: ImageSource, layer: Layer, keep: Keep, blobs: Blobs, still: Wanted
) -> LayerListing:
    with (
        source.open_blob(layer.descriptor) as chunks,
        closing(plain_tar(chunks, layer, place=source.place)) as plain,
    ):
        return list_layer(still.chunks(plain), layer, keep=keep, blobs=blobs)


class _Listing:
    """A LayerListing in the making."""

    def __init__(self, layer: Layer, stream: TarStream, keep: Keep, blobs: Blobs) -> None:
        self._layer = layer
        self._digest = layer.descriptor.digest
        self._stream = stream
        self._keep = keep
        self._blobs = blobs
        self._found: dict[str, Entry | HardLink] = {}
        self._origins: dict[str, str] = {}
        self._whiteouts: list[str] = []
        self._opaques: list[str] = []
        self._unkept: set[str] = set()
        self._taken = 0
        self._symlinks: dict[str, Entry] = {}
        self._folders: dict[str, str] = {}
        self._above: set[str] = set()
        """Where the folders of paths really are, and all folders that were looked at for that."""
        self._numbers: dict[int, int] = {}

    def done(self) -> LayerListing:
        """The listing of everything taken."""
        return LayerListing(
            layer=self._layer,
            entries=tuple(item for item in self._found.values() if isinstance(item, Entry)),
            links=tuple(item for item in self._found.values() if isinstance(item, HardLink)),
            whiteouts=tuple(self._whiteouts),
            opaques=tuple(self._opaques),
            unkept=frozenset(self._unkept),
            taken=self._taken,
        )

    def take(self, member: Member) -> None:
        """Add one member of the archive, its content read as far as it is needed."""
        self._taken += 1
        if self._taken > MAX_ENTRIES:
            raise TooManyEntriesError(self._digest)
        path = self._settled(self._clean(member.path))
        directory, _, name = path.rpartition("/")
        if name == OPAQUE_NAME:
            self._opaques.append(directory)
        elif any(text.startswith(_AUFS_PREFIX) for text in (name, path)):
            pass  # aufs's own bookkeeping, which engines skip too, with what lies in it
        elif name.startswith(WHITEOUT_PREFIX):
            hidden = name.removeprefix(WHITEOUT_PREFIX)
            if hidden in ("", ".", ".."):
                raise UnsafePathError(self._digest, path=member.path)
            self._whiteouts.append(f"{directory}/{hidden}" if directory else hidden)
        else:
            self._add(
                path, self._hard_link if member.flag == untar.HARD_LINK else self._entry, member
            )

    def _add(
        self, path: str, make: Callable[[str, Member], Entry | HardLink], member: Member
    ) -> None:
        item = make(path, member)
        old = self._found.pop(path, None)  # the last of several stands where it came
        if old is not None and _is_folder(item) and not _is_folder(old):
            # engines differ in what is in it then, of this layer and of those below
            reason = "a folder in the place of a file"
            raise MalformedLayerError(self._digest, entry=path, reason=reason)
        self._symlinks.pop(path, None)
        if isinstance(item, Entry) and item.kind is Kind.SYMLINK:
            self._symlinks[path] = item
        if not _is_folder(item) and path in self._above:
            self._folders.clear()
        self._found[path] = item

    def _entry(self, path: str, member: Member) -> Entry:
        kind = _KINDS.get(member.flag, Kind.OTHER)
        if not path and kind is not Kind.DIRECTORY:
            raise UnsafePathError(self._digest, path=member.path)
        content: Digest | None = None
        head = b""
        if kind is Kind.FILE:
            content, head = self._read(path, member)
        self._refuse_long(member.link)
        self._origins.pop(path, None)
        return Entry(
            path=path,
            kind=kind,
            mode=self._one(member.mode),
            uid=self._one(member.uid),
            gid=self._one(member.gid),
            mtime=self._one(member.mtime),
            size_bytes=member.size_bytes if kind is Kind.FILE else 0,
            layer=self._digest,
            link=member.link if kind is Kind.SYMLINK else "",
            content=content,
            head=head,
        )

    def _one(self, number: int) -> int:
        """The same number, one object for all entries that have it: there are many entries."""
        return self._numbers.setdefault(number, number)

    def _read(self, path: str, member: Member) -> tuple[Digest | None, bytes]:
        """Digest of the file's bytes if they are kept, and its first bytes if executable.

        What is not read, the stream leaves out without a copy.
        """
        is_program = bool(member.mode & 0o111)
        head = self._stream.start(HEAD_BYTES) if is_program else b""
        if not self._keep(path):
            return None, head
        return self._blobs.put(chain([head], self._stream.content())), head

    def _hard_link(self, path: str, member: Member) -> Entry | HardLink:
        """The file that the link names, as it stands at this point of the layer."""
        target = self._settled(self._clean(member.link))
        found = self._found.get(target)
        self._origins.pop(path, None)
        if not isinstance(found, Entry):
            return HardLink(path, found.target if found else target)
        origin = self._origins.get(target, target)
        if origin != path:
            self._origins[path] = origin
        if found.kind is Kind.FILE and found.content is None and self._keep(path):
            self._unkept.add(origin)
        return replace(found, path=path)

    def _settled(self, path: str) -> str:
        """The path with this layer's own links in its folders followed, as engines unpack it.

        Links of the layers below are not: there a folder takes their place.
        """
        folder, _, name = path.rpartition("/")
        if not folder:
            return path
        if folder not in self._folders:
            self._folders[folder] = self._folder(folder)
        real = self._folders[folder]
        return f"{real}/{name}" if real else name

    def _folder(self, folder: str) -> str:
        try:
            real = ImageTree(self._symlinks).resolve(folder)
        except SymlinkLoopError as error:
            reason = "its folder is a loop of links"
            raise MalformedLayerError(self._digest, entry=folder, reason=reason) from error
        for above in (*parents(folder), folder, *parents(real), real):
            self._above.add(above)
        for above in (*parents(real), real):
            if above in self._found and not _is_folder(self._found[above]):
                reason = "a path below a file of the same layer"
                raise MalformedLayerError(self._digest, entry=above, reason=reason)
        return real

    def _clean(self, path: str) -> str:
        """The path as in builder/oci/tree.py, of `x`, `./x`, `/x` or `x/`."""
        self._refuse_long(path)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in path:
            raise UnsafePathError(self._digest, path=path)
        return "/".join(parts)

    def _refuse_long(self, path: str) -> None:
        if len(path) <= MAX_PATH_BYTES // 4:
            return  # a character has at most four bytes
        size_bytes = len(path.encode(errors="surrogateescape"))
        if size_bytes > MAX_PATH_BYTES:
            raise PathTooLongError(self._digest, path=path, size_bytes=size_bytes)


def _is_folder(item: Entry | HardLink) -> bool:
    return isinstance(item, Entry) and item.kind is Kind.DIRECTORY
