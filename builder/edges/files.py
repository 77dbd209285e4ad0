"""Reading cluster.toml, and reading and writing lockfile.json.

A manifest is read with tomllib, which is strict and knows the column of every mistake; tomlkit
takes `["a"+, "b"]`. It is for edits, where it keeps comments and layout.
"""

from __future__ import annotations

import errno
import re
import stat
import tomllib
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from builder.edges.disk import write_whole
from builder.edges.local_files import read_local_files
from builder.lock_errors import LockNotFoundError, LockNotWritableError, LockUnreadableError
from builder.lockfile import lock_text, parse_lock
from builder.read.check import check_document
from builder.read.errors import (
    EmptyManifestError,
    InvalidManifestError,
    ManifestNotFoundError,
    ManifestNotTomlError,
    ManifestNotUtf8Error,
    ManifestUnreadableError,
    SshConfigMissingError,
)
from builder.read.lines import key_lines
from builder.read.loaded import LoadedManifest

if TYPE_CHECKING:
    from pathlib import Path

    from builder.lock import Lock
    from builder.manifest import ClusterManifest
    from builder.read.check import Checked
    from builder.read.lines import Loc


def read_manifest(path: Path) -> LoadedManifest:
    """The manifest at a path, with the digests of the files beside it that it names.

    Raises ManifestError: for a file that is not readable TOML its first mistake, else every problem
    of every field, rule and file at once.
    """
    checked, lines, data = _checked(path)
    local = read_local_files(path.parent, checked.parts)
    problems = checked.problems + local.problems
    if problems or checked.manifest is None:
        raise InvalidManifestError(str(path), lines, problems)
    return LoadedManifest(
        manifest=checked.manifest,
        path=path,
        lines=lines,
        own_files=local.own_files,
        model_files=local.model_files,
        data=data,
    )


def read_values(path: Path) -> ClusterManifest:
    """The values of the manifest at a path; the files beside it, a whole model, are not read.

    Raises ManifestError.
    """
    checked, lines, _ = _checked(path)
    if checked.problems or checked.manifest is None:
        raise InvalidManifestError(str(path), lines, checked.problems)
    return checked.manifest


def with_bytes(loaded: LoadedManifest, data: bytes) -> LoadedManifest:
    """The manifest as it will be once its file has these bytes; the files beside it as they were.

    Raises ManifestError.
    """
    checked, lines = _check(loaded.path, data)
    if checked.problems or checked.manifest is None:
        raise InvalidManifestError(loaded.name, lines, checked.problems)
    return replace(loaded, manifest=checked.manifest, lines=lines, data=data)


def _checked(path: Path) -> tuple[Checked, dict[Loc, int], bytes]:
    """The manifest or its problems, the line of each of its values, and the file's bytes."""
    data = _manifest_bytes(path)
    return *_check(path, data), data


def _check(path: Path, data: bytes) -> tuple[Checked, dict[Loc, int]]:
    document, lines = _parsed(str(path), _text(path, data))
    if not document:
        raise EmptyManifestError(str(path))
    return check_document(document), lines


def ssh_config_of(loaded: LoadedManifest) -> Path | None:
    """The ssh_config by which the nodes are reached, None for the user's own.

    Raises SshConfigMissingError. Only who needs the nodes asks: locking and building need no file
    that a lab writes when it comes up.
    """
    if loaded.manifest.ssh.config is None:
        return None
    path = loaded.folder / loaded.manifest.ssh.config
    with suppress(OSError):
        if path.is_file():
            return path
    raise SshConfigMissingError(loaded.place("ssh.config"), str(path))


def _manifest_bytes(path: Path) -> bytes:
    try:
        return _regular(path)
    except FileNotFoundError as error:
        raise ManifestNotFoundError(str(path)) from error
    except (OSError, ValueError) as error:
        raise ManifestUnreadableError(str(path), _reason(error)) from error


def _text(path: Path, data: bytes) -> str:
    r"""The manifest's text, with line ends of `\n` alone."""
    try:
        return data.decode().removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestNotUtf8Error(str(path), error.start, line, data[error.start]) from error


def _regular(path: Path) -> bytes:
    """The bytes of a regular file; OSError for anything else, since a device need never end."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a folder has a reason of its own
        raise OSError(errno.EINVAL, "not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise OSError(errno.EFBIG, f"more than {MAX_TEXT_BYTES} bytes")
    return data


MAX_TEXT_BYTES: Final = 4 * 2**20
"""Of a manifest or a lock; they have some kilobytes."""


def _parsed(name: str, text: str) -> tuple[dict[str, Any], dict[Loc, int]]:
    """The document, and the line of each of its values."""
    try:
        document, lines = tomllib.loads(text), key_lines(text)
    except RecursionError as error:
        raise ManifestNotTomlError(name, 1, 1, _DEEP, "hundreds of levels") from error
    except ValueError as error:  # tomllib's own error is one, and int() of 5000 digits another
        raise _not_toml(name, text, str(error)) from error
    deep = next((loc for loc in lines if len(loc) > MAX_DEPTH), None)
    if deep is not None:
        raise ManifestNotTomlError(name, lines[deep], 1, _DEEP, f"more than {MAX_DEPTH} levels")
    return document, lines


MAX_DEPTH: Final = 32
"""Levels of lists and tables; what walks over a document later may recurse without a thought."""

_DEEP: Final = "lists or tables are nested too deeply"
_AT: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def _not_toml(name: str, text: str, message: str) -> ManifestNotTomlError:
    """The error with the place that tomllib writes at the end of its message."""
    match = _AT.search(message)
    if match is None:
        return ManifestNotTomlError(name, 1, 1, "a number has too many digits", message)
    problem = message[: match.start()]
    if match[1]:
        line, column = int(match[1]), int(match[2])
        rest = text.split("\n")[line - 1][column - 1 :]
        found = f"the character {rest[0]!a}" if rest else "the end of the line"
    else:
        line, column, found = text.count("\n") + 1, 1, "the end of the file"
    return ManifestNotTomlError(name, line, column, problem, found)


def read_lock(path: Path) -> Lock:
    """The lock at a path; LockError if it is missing, unreadable, damaged or edited by hand."""
    try:
        data = _regular(path)
    except FileNotFoundError as error:
        raise LockNotFoundError(str(path)) from error
    except OSError as error:
        raise LockUnreadableError(str(path), _reason(error)) from error
    return parse_lock(data, place=str(path))


def write_lock(path: Path, lock: Lock) -> None:
    """Put the lock's canonical text at a path, all of it or nothing; an old file's mode is kept.

    Raises LockNotWritableError.
    """
    try:
        write_whole(path, [lock_text(lock)])
    except OSError as error:
        raise LockNotWritableError(str(path), _reason(error)) from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
