"""Files picked out of a donor: where each comes from, and where it goes in the base."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from posixpath import basename
from typing import TYPE_CHECKING

from builder.graft.errors import BadPick, Fault, PickError
from builder.graft.packages import find_package
from builder.oci.tree import Kind, SymlinkLoopError

if TYPE_CHECKING:
    from builder.digest import Digest
    from builder.graft.packages import PackageRoot
    from builder.image_section import Graft
    from builder.oci.tree import ImageTree


@dataclass(frozen=True, slots=True)
class Pick:
    """One file out of a donor. `source` and `target` are tree paths, `mode` is 0o644 or 0o755.

    `head` is that of the donor's entry.
    """

    donor: str
    package: str
    source: str
    target: str
    layer: Digest
    size_bytes: int
    mode: int
    content: Digest
    head: bytes = b""


def pick(donor: ImageTree, graft: Graft, base: PackageRoot, *, place: str) -> tuple[Pick, ...]:
    """The files of a graft, in the graft's order, found in the donor's own package.

    `base` is the same package in the base; `place` is the graft as an error names it,
    `cluster.toml: image.graft[0]`. Raises PickError with every file that cannot be taken:
    missing, not a regular file, or compiled bytecode. `target` is not yet resolved through the
    base's symlinks.
    """
    root = find_package(donor, graft.package, image=f"donor {graft.donor}")
    picks: list[Pick] = []
    bad: list[BadPick] = []
    for index, file in enumerate(graft.files):
        source = root.file(file)
        fault = _fault(donor, root, file)
        if fault is not None:
            bad.append(BadPick(f"{place}.files[{index}]", graft.donor, source, fault))
            continue
        entry = donor.entries[source]
        assert entry.content is not None, f"the layer reader did not keep {source}; see keep_for"
        picks.append(
            Pick(
                donor=graft.donor,
                package=graft.package,
                source=source,
                target=base.file(file),
                layer=entry.layer,
                size_bytes=entry.size_bytes,
                mode=0o755 if entry.mode & 0o111 else 0o644,
                content=entry.content,
                head=entry.head,
            )
        )
    if bad:
        raise PickError(tuple(bad))
    return tuple(picks)


def _fault(tree: ImageTree, root: PackageRoot, file: str) -> Fault | None:
    """Why a file of the package cannot be taken; None if it can."""
    if file.endswith((".pyc", ".pyo")):
        return Fault(
            what=f"{file} is compiled bytecode, good only for its own source and Python",
            found="bytecode",
            remedy="name the .py file",
        )
    source = root.file(file)
    try:
        real = tree.resolve(source)
    except SymlinkLoopError:
        real = "a loop of symlinks"
    if real != source:
        return Fault(
            what=f"{file} is a symlink, or below one",
            found=f"/{source} leads to {real}",
            remedy="name the file it leads to, or use a donor that has the file itself",
        )
    entry = tree.get(source)
    if entry is None:
        return _missing(tree, root, file)
    if entry.kind is not Kind.FILE:
        return Fault(
            what=f"{file} is not a regular file",
            found=entry.kind.value,
            remedy="name the files themselves, one by one",
        )
    return None


def _missing(tree: ImageTree, root: PackageRoot, file: str) -> Fault:
    """The fault of a file that is not there, with the package's files of a like name."""
    inside = [
        relative
        for path, entry in sorted(tree.entries.items())
        if entry.kind is Kind.FILE and (relative := root.relative(path)) is not None
    ]
    names = get_close_matches(basename(file), sorted({basename(path) for path in inside}), n=3)
    near = [path for name in names for path in inside if basename(path) == name][:3]
    return Fault(
        what=f"there is no {file} in its package {root.package}",
        found=f"near names: {', '.join(near)}" if near else "no file of a like name",
        remedy="correct the name, or use a donor that has the file",
    )
