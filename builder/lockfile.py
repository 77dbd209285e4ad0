"""The text of lockfile.json: writing it and reading it."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from builder.digest import digest_bytes
from builder.json_text import JsonTextError, parse_json
from builder.lock import LOCK_VERSION, Lock
from builder.lock_errors import (
    LockConflictError,
    LockInvalidError,
    LockNotCanonicalError,
    LockNotJsonError,
    LockVersionError,
)
from builder.read.problems import problems_of, shortened

if TYPE_CHECKING:
    from builder.digest import Digest


def lock_text(lock: Lock) -> bytes:
    """The canonical bytes of a lock, with a newline at the end.

    Keys in the models' order, two spaces, and each object that holds no other on a line of its own
    in its list: a reviewer's diff is made of whole facts. All beyond ASCII is escaped, so that
    a review shows every character, also those that reverse or hide text.
    """
    return f"{_rendered(lock.model_dump(mode='json'), '')}\n".encode("ascii")


def lock_digest(lock: Lock) -> Digest:
    """The digest of a lock's bytes: what containers, reports and labels name it by."""
    return digest_bytes(lock_text(lock))


def _rendered(value: object, indent: str) -> str:
    inner = f"{indent}  "
    if isinstance(value, dict) and value:
        items = [f"{json.dumps(key)}: {_rendered(item, inner)}" for key, item in value.items()]
        return _block("{", items, "}", indent)
    if isinstance(value, list) and value:
        items = [
            json.dumps(item) if _fits_a_line(item) else _rendered(item, inner) for item in value
        ]
        return _block("[", items, "]", indent)
    return json.dumps(value)


def _block(start: str, items: list[str], end: str, indent: str) -> str:
    return start + ",".join(f"\n{indent}  {item}" for item in items) + f"\n{indent}{end}"


def _fits_a_line(item: object) -> bool:
    """Whether an item of a list is a single value, or an object that holds only such and lists."""
    if not isinstance(item, dict):
        return not isinstance(item, list)
    return not any(
        isinstance(value, dict)
        or (isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value))
        for value in item.values()
    )


_CONFLICT: Final = re.compile(rb"^(?:<{7}|={7}|>{7}|\|{7})(?: |\r?$)", re.MULTILINE)


def parse_lock(text: bytes, *, place: str) -> Lock:
    """The lock in a file's bytes; `place` names the file in errors.

    Raises LockConflictError, LockNotJsonError, LockVersionError, LockInvalidError, and
    LockNotCanonicalError when the bytes are not just what `lock_text` writes.
    """
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        raise LockConflictError(place, text.count(b"\n", 0, conflict.start()) + 1)
    document = _document(text, place)
    version = document.get("lock_version") if isinstance(document, dict) else None
    if type(version) is not int or version != LOCK_VERSION:
        raise LockVersionError(place, LOCK_VERSION, version)
    try:
        lock = Lock.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise LockInvalidError(place, problems_of(error, Lock, document)) from error
    canonical = lock_text(lock)
    if text != canonical:
        raise _not_canonical(text, canonical, place)
    return lock


def _document(text: bytes, place: str) -> object:
    try:
        return parse_json(text)
    except JsonTextError as error:
        raise LockNotJsonError(place, error.line, error.reason) from error


def _not_canonical(text: bytes, canonical: bytes, place: str) -> LockNotCanonicalError:
    """The error with the first line that is not as `lock_text` writes it."""
    found, expected = text.split(b"\n"), canonical.split(b"\n")
    pairs = enumerate(itertools.zip_longest(expected, found), start=1)
    number, (wanted, there) = next(pair for pair in pairs if pair[1][0] != pair[1][1])
    return LockNotCanonicalError(place, number, _line(wanted), _line(there))


def _line(line: bytes | None) -> str:
    """A line as an error shows it: short, and with its spaces visible."""
    if line is None:
        return "the end of the file"
    return shortened(ascii(line.decode()))
