"""Where our files go in a base: through its links, below its folders, over its stale byte code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builder.oci.image_errors import ParentIsFileError, TargetIsDirectoryError, TargetLoopError
from builder.oci.tar import TarEntry, TarKind, ordered
from builder.oci.tree import Kind, SymlinkLoopError, parents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.oci.tree import ImageTree


def parent_dirs(tree: ImageTree, targets: Iterable[str], *, epoch: int) -> tuple[TarEntry, ...]:
    """Every directory above the targets, as entries for our layer, parents first.

    One that the base has keeps its mode, owner and mtime; a new one is 0755 0:0 at `epoch`. Engines
    disagree about directories that a layer leaves out (image-spec#737), so none is. `targets` are
    resolved paths (resolve_destination); those of whiteouts belong among them.
    Raises ParentIsFileError.
    """
    paths = {parent for target in targets for parent in parents(target)}
    return ordered(_directory(tree, path, epoch) for path in paths)


def resolve_destination(tree: ImageTree, path: str) -> str:
    """Where a file for `path` must be written, relative to the root.

    Directories on the way are resolved through the base's symlinks: a layer that writes below
    `lib -> usr/lib` replaces the link by a directory. A symlink at the path itself is replaced.
    Raises TargetIsDirectoryError, ParentIsFileError or TargetLoopError.
    """
    try:
        resolved = tree.resolve(path, follow_last=False)
        reached = tree.find(path)
    except SymlinkLoopError as error:
        raise TargetLoopError(path.strip("/")) from error
    if not resolved or (reached is not None and reached.kind is Kind.DIRECTORY):
        raise TargetIsDirectoryError(resolved)
    for parent in parents(resolved):
        entry = tree.get(parent)
        if entry is not None and entry.kind is not Kind.DIRECTORY:
            raise ParentIsFileError(resolved, f"/{parent} is a {entry.kind.value}")
    return resolved


def stale_pyc(tree: ImageTree, paths: Iterable[str]) -> tuple[str, ...]:
    """The base's compiled files of the given Python files, sorted: each needs a whiteout.

    An "unchecked" compiled file would run the old code in place of the new.
    """
    sources = {path.removesuffix(".py") for path in paths if path.endswith(".py")}
    return tuple(sorted(path for path in tree.entries if _compiled_from(path) in sources))


def _compiled_from(path: str) -> str | None:
    """The source, without `.py`, of `DIR/__pycache__/NAME.TAG[.opt-N].pyc`; None for others."""
    directory, _, name = path.rpartition("/")
    package, _, cache = directory.rpartition("/")
    if cache != "__pycache__" or not name.endswith(".pyc"):
        return None
    stem = name.split(".")[0]
    return f"{package}/{stem}" if package else stem


def _directory(tree: ImageTree, path: str, epoch: int) -> TarEntry:
    entry = tree.get(path)
    if entry is None:
        return TarEntry(path, TarKind.DIRECTORY, 0o755, epoch)
    if entry.kind is not Kind.DIRECTORY:
        raise ParentIsFileError(path, f"a {entry.kind.value}")
    return TarEntry(path, TarKind.DIRECTORY, entry.mode, entry.mtime, uid=entry.uid, gid=entry.gid)
