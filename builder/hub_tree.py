"""A model's files as the Hub lists them: read from its JSON, chosen by pattern, names proven safe.

Nothing that a server says is trusted: a name becomes a path on the nodes, and one that leads out of
the model's folder would be written there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from builder.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UNUSED: Final = frozenset({".gitattributes", ".gitignore", "README.md"})
"""Files of a repository that are there for Git and for people; left out unless asked for."""

RESERVED: Final = (".sparklock", ".cache")
"""Folders in the model's folder that are ours, and huggingface_hub's own."""

MOST_FILES: Final = 10_000
"""Of one model; beyond that a lock could no longer be read."""

MOST_BYTES: Final = 2**53
"""Of one file: what JSON's readers agree on, and more than any disk has."""

_MOST_SHOWN: Final = 120
_MOST_NAME_BYTES: Final = 255
_MOST_PATH_BYTES: Final = 1024
_NO_JSON: Final = "no JSON"
_NO_LIST: Final = "no list of files"
_NO_FILE: Final = "a file without path, size or hash"
_TOO_MANY: Final = "too many files"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SHA1: Final = re.compile(r"[0-9a-f]{40}")


class TreeError(Exception):
    """What of a listing cannot be used, in words, and the start of what it says there."""

    def __init__(self, what: str, said: object = "") -> None:
        shown = said[:_MOST_SHOWN] if isinstance(said, bytes | str) else str(said)[:_MOST_SHOWN]
        super().__init__(f"{what}: {shown!r}" if said else what)


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository; `digest` is known for large files (LFS), `git_sha1` for the others.

    The latter is of Git's blob: a header and the bytes.
    """

    path: str
    size_bytes: int
    digest: Digest | None
    git_sha1: str


def read_page(body: bytes) -> tuple[HubFile, ...]:
    """The files on one page of a listing; TreeError if it is none."""
    try:
        entries = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TreeError(_NO_JSON, body) from error
    if not isinstance(entries, list):
        raise TreeError(_NO_LIST, body)
    return tuple(_file(entry) for entry in entries if not _is_folder(entry))


def _is_folder(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "directory"


def _file(entry: Any) -> HubFile:  # noqa: ANN401 - a value of JSON
    try:
        path, lfs = entry["path"], entry.get("lfs")
        size_bytes = entry["size"] if lfs is None else lfs["size"]
        sha256 = None if lfs is None else lfs["oid"].removeprefix("sha256:")
        sha1 = entry["oid"]
        known = (_SHA1.fullmatch(sha1) if sha256 is None else _SHA256.fullmatch(sha256)) is not None
    except (LookupError, TypeError, AttributeError) as error:
        raise TreeError(_NO_FILE, entry) from error
    fits = isinstance(path, str) and type(size_bytes) is int and 0 <= size_bytes <= MOST_BYTES
    if not (known and fits):
        raise TreeError(_NO_FILE, entry)
    digest = None if sha256 is None else Digest(f"sha256:{sha256}")
    return HubFile(path, size_bytes, digest, sha1)


def chosen(
    files: Sequence[HubFile], include: Sequence[str], exclude: Sequence[str]
) -> tuple[HubFile, ...]:
    """The files that the patterns choose, sorted by path; TreeError if one has an unsafe name.

    A pattern is the shell's, its `*` goes over `/`, and one that ends with `/` is all below a
    folder, as huggingface_hub has it. Without `include` all are chosen but those for Git and for
    people.
    """
    kept = [
        file
        for file in files
        if (_fits(file, include) if include else file.path not in UNUSED)
        and not _fits(file, exclude)
    ]
    if len(kept) > MOST_FILES:
        raise TreeError(_TOO_MANY, f"{len(kept)}, more than {MOST_FILES}")
    for problem in _problems([file.path for file in kept]):
        raise TreeError(problem)
    return tuple(sorted(kept, key=lambda file: file.path))


def _fits(file: HubFile, patterns: Sequence[str]) -> bool:
    whole = (f"{pattern}*" if pattern.endswith("/") else pattern for pattern in patterns)
    return any(fnmatchcase(file.path, pattern) for pattern in whole)


def _problems(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        problem = path_problem(path)
        if problem:
            yield f"the name {path[:120]!a} {problem}"
        elif path.split("/")[0].casefold() in RESERVED:
            yield f"the name {path!a} is in a folder that is not the model's"
    # Names that a node's disk may take for one; compared with a slash, for a file is no folder.
    spelled = sorted((f"{path.casefold()}/", path) for path in paths)
    for (before, one), (after, other) in pairwise(spelled):
        if after.startswith(before):
            yield f"the names {one!a} and {other!a} cannot stand beside each other"


def path_problem(path: str) -> str:
    """Why a path does not name a file below a folder; empty if it does."""
    parts = path.split("/")
    if not path.isprintable():
        return "is not printable text"
    if any(part in ("", ".", "..") for part in parts):
        return "leads out of the model's folder, or around in it"
    if len(path.encode()) > _MOST_PATH_BYTES:
        return "is too long"
    if any(len(part.encode()) > _MOST_NAME_BYTES for part in parts):
        return "has a part that is too long"
    return ""
