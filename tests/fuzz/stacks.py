"""Stacks of layers made of bytes, and what a container sees of them by the rules, plainly."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.digest import digest_bytes
from builder.errors import SparklockError
from builder.oci.tree import Kind
from builder.oci.whiteout import read_tree
from tests.fakes import MemoryBlobs
from tests.fuzz.target import Target, told
from tests.unit.oci.archives import Published, special, tar_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.oci.tree import ImageTree

Member = tuple[tarfile.TarInfo, bytes]

NAMES: Final = ("a", "b", "c", "d")
_SPECIAL: Final = (".wh..wh..opq", ".wh..wh.aufs", ".wh.", ".wh..", "..", ".")
_KINDS: Final = (
    *(tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE),
    *(tarfile.LNKTYPE, b"whiteout", b"opaque", b"next layer", tarfile.FIFOTYPE),
)
_MODES: Final = (0o644, 0o755, 0o4711, 0o1777, 0o700, 0o600)


@dataclass(frozen=True)
class Seen:
    """One path as a container sees it."""

    kind: Kind
    mode: int
    uid: int
    mtime: int
    link: str = ""
    content: str = ""


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = iter(data)
        self.left = True

    def next(self) -> int:
        byte = next(self._data, None)
        if byte is None:
            self.left = False
            return 0
        return byte

    def path(self) -> str:
        byte = self.next()
        parts = [NAMES[byte >> shift & 3] for shift in (0, 2, 4)]
        return "/".join(parts[: 1 + (byte >> 6) % 3])


def layers_of(data: bytes, *, wild: bool) -> list[list[Member]]:
    """Layers of a few entries each, three bytes for one; `wild` ones have every odd name too."""
    source, layers = _Bytes(data), [list[Member]()]
    while True:
        kind, path = _KINDS[(first := source.next()) % len(_KINDS)], source.path()
        other = source.path()
        if not source.left:
            return layers
        if kind == b"next layer":
            layers.append([])
        else:
            layers[-1].append(_member(kind, path, other, first))
            if wild and first > 240:
                layers[-1][-1][0].name = f"{path}/{_SPECIAL[first % len(_SPECIAL)]}"


def _member(kind: bytes, path: str, other: str, salt: int) -> Member:
    folder, _, name = path.rpartition("/")
    above = f"{folder}/" if folder else ""
    if kind == b"whiteout":
        return special(f"{above}.wh.{name}", tarfile.REGTYPE)
    if kind == b"opaque":
        return special(f"{path}/.wh..wh..opq", tarfile.REGTYPE)
    info, _ = special(path, kind, other if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else "")
    info.mode = 0o777 if kind == tarfile.SYMTYPE else _MODES[salt % len(_MODES)]
    info.uid = info.gid = salt % 3
    info.mtime = 1000 + salt
    data = f"{path} {salt}".encode() if kind == tarfile.REGTYPE else b""
    info.size = len(data)
    return info, data


def by_the_rules(layers: list[list[Member]]) -> dict[str, Seen] | None:
    """What is seen of well-named layers; None where a hard link leads to no file."""
    tree: dict[str, Seen] = {}
    for layer in layers:
        below, own = dict(tree), _stated(layer)
        for info, _ in layer:
            _hide(tree, info.name)
        for path, item in own.items():
            if isinstance(item, Seen):
                _put(tree, path, item)
        for path, item in own.items():
            if isinstance(item, str):
                target = below.get(item)
                if target is None or target.kind is Kind.DIRECTORY:
                    return None
                _put(tree, path, target)
    return tree


def _stated(layer: list[Member]) -> dict[str, Seen | str]:
    """What a layer itself has by path, of one that it has twice the last."""
    own: dict[str, Seen | str] = {}
    for info, data in layer:
        if ".wh." not in info.name:
            found = _own(own, info, data)
            own.pop(info.name, None)
            own[info.name] = found
    return own


def _own(own: dict[str, Seen | str], info: tarfile.TarInfo, data: bytes) -> Seen | str:
    """The entry; of a hard link the one it names, or the path of it in the layers below."""
    if info.type == tarfile.LNKTYPE:
        return own.get(info.linkname, info.linkname)
    kind = {
        tarfile.REGTYPE: Kind.FILE,
        tarfile.DIRTYPE: Kind.DIRECTORY,
        tarfile.SYMTYPE: Kind.SYMLINK,
    }.get(info.type, Kind.OTHER)
    content = digest_bytes(data) if kind is Kind.FILE else ""
    return Seen(kind, info.mode, info.uid, int(info.mtime), info.linkname, content)


def _hide(tree: dict[str, Seen], name: str) -> None:
    folder, _, last = name.rpartition("/")
    if last == ".wh..wh..opq":
        gone = [path for path in tree if path.startswith(f"{folder}/")]
    elif last.startswith(".wh."):
        hidden = f"{folder}/{last[4:]}" if folder else last[4:]
        gone = [path for path in tree if f"{path}/".startswith(f"{hidden}/")]
    else:
        return
    for path in gone:
        del tree[path]


def _put(tree: dict[str, Seen], path: str, item: Seen) -> None:
    parts = path.split("/")
    for end in range(1, len(parts)):
        parent = "/".join(parts[:end])
        if parent not in tree or tree[parent].kind is not Kind.DIRECTORY:
            tree[parent] = Seen(Kind.DIRECTORY, 0o755, 0, 0)
    if item.kind is not Kind.DIRECTORY:
        for inner in [other for other in tree if other.startswith(f"{path}/")]:
            del tree[inner]
    tree[path] = item


def seen(tree: ImageTree) -> dict[str, Seen]:
    """What our reader says is seen."""
    return {
        path: Seen(
            *(entry.kind, entry.mode, entry.uid, entry.mtime, entry.link, entry.content or "")
        )
        for path, entry in tree.entries.items()
        if path
    }


def read_stack(data: bytes) -> None:
    """Fails where our tree is not the one by the rules, or is none that an image can have."""
    layers = layers_of(data, wild=True)
    published = Published()
    image = published.image(*(tar_of(*members) for members in layers))
    blobs = MemoryBlobs()
    try:
        tree = read_tree(published.source, image.layers, keep=lambda _: True, blobs=blobs)
    except SparklockError as error:
        told(error, exit_code=4)
        return
    for path, entry in tree.entries.items():
        parts = path.split("/")
        assert not {"..", "."} & set(parts), path
        assert path == entry.path
        assert entry.kind is not Kind.FILE or (entry.content and blobs.has(entry.content)), path
    names = [info.name for layer in layers for info, _ in layer]
    if all(map(_is_plain, names)) and not any(map(_leads_elsewhere, layers)):
        expected = by_the_rules(layers)
        assert seen(tree) == expected, (seen(tree), expected)


def _leads_elsewhere(layer: list[Member]) -> bool:
    """Whether a path leads through a link of its own layer; the plain rules do not follow them."""
    links = {info.name for info, _ in layer if info.type == tarfile.SYMTYPE}
    paths = [path for info, _ in layer for path in (info.name, info.linkname)]
    return any(path.startswith(f"{link}/") for path in paths for link in links)


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return not any(part in (".", "..") for part in parts) and not any(
        part.startswith(".wh.") and part not in (".wh..wh..opq", ".wh.a", ".wh.b", ".wh.c", ".wh.d")
        for part in parts
    )


def sane(layers: list[list[Member]]) -> list[list[Member]]:
    """The layers as a build tool writes them.

    One entry for each path, folders before what is in them and all of them stated, files and links
    not above anything, nothing hidden that the layer has, hard links to files that are there, with
    the attributes that both share.
    """
    made: list[list[Member]] = []
    for layer in layers:
        members = dict(_sane(layer))
        ordered = [members[path] for path in sorted(members)]
        made.append([*(item for item in ordered if item[0].type != tarfile.LNKTYPE)])
        made[-1] += [item for item in ordered if item[0].type == tarfile.LNKTYPE]
    return made


def _sane(layer: list[Member]) -> Iterator[tuple[str, Member]]:
    paths = {info.name for info, _ in layer if ".wh." not in info.name}
    first = {info.name: info for info, _ in reversed(layer) if ".wh." not in info.name}
    files = {name: info for name, info in first.items() if info.type == tarfile.REGTYPE}
    above = {
        "/".join(parts[:end])
        for parts in (info.name.split("/") for info, _ in layer)
        for end in range(1, len(parts))
    }
    for path in sorted(above):
        yield path, _member(tarfile.DIRTYPE, path, "", len(path))
    written = set(above)
    for info, data in layer:
        folder, _, name = info.name.rpartition("/")
        hidden = f"{folder}/{name[4:]}" if folder else name[4:]
        if name.startswith(".wh.") and name != ".wh..wh..opq" and hidden in paths | above:
            continue
        if info.type == tarfile.LNKTYPE:
            targets = sorted(files.keys() - above)
            if not targets:
                continue
            target = files[info.linkname if info.linkname in targets else targets[0]]
            info.linkname = target.name
            info.mode, info.mtime = target.mode, target.mtime
            info.uid, info.gid = target.uid, target.gid
        if info.name in written or (info.name in above and info.type != tarfile.DIRTYPE):
            continue
        written.add(info.name)
        yield info.name, (info, data)


def seeds() -> list[bytes]:
    """A few stacks."""
    return [bytes(range(0, 250, step)) for step in (1, 3, 7)] + [b"\x02\0\0\x00\x40\0\x06\x40\0"]


STACK: Final = Target(read_stack, seeds, max_bytes=120)
