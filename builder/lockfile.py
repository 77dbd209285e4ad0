"""The text of lockfile.json, its digest, and what differs between two locks.

Only `inv lock` writes it, so there is one spelling: keys in the order of the models, two spaces, an
object without nested objects on one line when it stands in a list, ASCII, a newline at the end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from builder.digest import digest_bytes
from builder.errors import LockError, Message
from builder.lock import LOCK_VERSION, Lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import Digest, JsonValue
    from builder.hybrid import Wanted

_CONFLICT: Final = ("<<<<<<< ", "=======", ">>>>>>> ")
_NAMES: Final = ("target", "path", "name", "key", "diff_id", "digest")
"""Keys that name an object among others in a list, best first."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same; None where one side does not have it."""

    path: str
    before: str | None
    after: str | None

    def as_json(self) -> dict[str, str | None]:
        """The difference as a JSON object."""
        return {"path": self.path, "before": self.before, "after": self.after}

    def text(self) -> str:
        """The difference on one line."""
        if self.before is None:
            return f"{self.path}: new: {self.after}"
        if self.after is None:
            return f"{self.path}: gone: {self.before}"
        return f"{self.path}: {self.before} -> {self.after}"


class UnreadableLockError(LockError):
    """The file is no lock that this sparklock can read."""

    def __init__(self, place: str, what: str, *, expected: str, found: str, remedy: str) -> None:
        super().__init__()
        self.place = place
        self.what = what
        self.expected = expected
        self.found = found
        self.remedy = remedy

    @property
    def messages(self) -> tuple[Message, ...]:
        """One message."""
        return (
            Message(
                place=self.place,
                what=self.what,
                expected=self.expected,
                found=self.found,
                remedy=self.remedy,
            ),
        )


def lock_text(lock: Lock) -> bytes:
    """The canonical bytes of a lock."""
    return "".join([*_rendered(lock.model_dump(mode="json"), 0), "\n"]).encode("ascii")


def lock_digest(text: bytes) -> Digest:
    """The digest of a lock's bytes: what containers, reports and labels name it by."""
    return digest_bytes(text)


def parse_lock(text: bytes, *, place: str) -> Lock:
    """The lock in the bytes.

    Raises UnreadableLockError: merge conflict, not JSON, a version newer than ours, a document that
    is no lock, or a lock that is not spelled canonically.
    """
    document = _document(text, place)
    version = document.get("lock_version") if isinstance(document, dict) else None
    if version != LOCK_VERSION:
        raise UnreadableLockError(
            place,
            "the lock has another version",
            expected=f"lock_version {LOCK_VERSION}",
            found=f"lock_version {version!r}",
            remedy="use the sparklock that wrote it, or write it anew: inv lock",
        )
    try:
        lock = Lock.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{place}: {'.'.join(str(part) for part in first['loc'])}"
        raise UnreadableLockError(
            where,
            "the document is no lock",
            expected=str(first["msg"]),
            found=repr(first["input"])[:200],
            remedy="write it anew: inv lock",
        ) from error
    if lock_text(lock) != text:
        raise UnreadableLockError(
            place,
            "the lock was changed by something other than `inv lock`",
            expected="canonical text",
            found=f"other bytes from line {_first_difference(lock_text(lock), text)} on",
            remedy="restore it from git, or write it anew: inv lock",
        )
    return lock


def staleness(lock: Lock, wanted: Wanted) -> tuple[Difference, ...]:
    """What the lock was made from and is no longer so: the manifest, own files, model files."""
    found: list[Difference] = []
    for file in lock.image.files:
        now = wanted.own_files.get(file.source)
        if now is not None and now.digest != file.digest:
            found.append(Difference(file.source, file.digest, now.digest))
    locked = {file.path: file.digest for file in lock.model.files}
    present = {file.path: file.digest for file in wanted.model_files}
    folder = wanted.manifest.model.files or ""
    found += [
        Difference(f"{folder}/{path}", locked.get(path), present.get(path))
        for path in sorted(locked.keys() | present.keys())
        if locked.get(path) != present.get(path)
    ]
    if lock.cluster_digest != wanted.cluster_digest:
        found.append(Difference("the manifest", lock.cluster_digest, wanted.cluster_digest))
    return tuple(found)


def differences(before: JsonValue, after: JsonValue) -> tuple[Difference, ...]:
    """Every fact that differs between two JSON values, such as two locks, in path order.

    An object in a list is named by its target, path, name, key, diff_id or digest, not by its
    place in the list.
    """
    old, new = dict(_facts(before, "")), dict(_facts(after, ""))
    return tuple(
        Difference(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    )


def _document(text: bytes, place: str) -> object:
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if line.startswith(tuple(mark.encode() for mark in _CONFLICT)):
            where = f"{place}:{number}"
            raise UnreadableLockError(
                where,
                "the lock holds a merge conflict",
                expected="one side of it",
                found=line.decode("ascii", "replace")[:80],
                remedy="take either side (git checkout --theirs), then: inv lock",
            )
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableLockError(
            place,
            "the lock is not JSON",
            expected="a JSON object, as `inv lock` writes it",
            found=str(error),
            remedy="restore it from git, or write it anew: inv lock",
        ) from error
    return document


def _rendered(value: JsonValue, depth: int) -> Iterator[str]:
    pad, end = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value:
        yield "{\n"
        for index, (key, item) in enumerate(value.items()):
            yield f"{',' + chr(10) if index else ''}{pad}{json.dumps(key)}: "
            yield from _rendered(item, depth + 1)
        yield f"\n{end}}}"
    elif isinstance(value, list) and value:
        yield "[\n"
        for index, item in enumerate(value):
            yield f"{',' + chr(10) if index else ''}{pad}"
            yield from _line(item) if _is_leaf(item) else _rendered(item, depth + 1)
        yield f"\n{end}]"
    else:
        yield json.dumps(value)


def _line(value: JsonValue) -> Iterator[str]:
    yield json.dumps(value)


def _is_leaf(value: JsonValue) -> bool:
    if not isinstance(value, dict):
        return False
    nested = (item for item in value.values() if isinstance(item, dict | list))
    return not any(_holds_objects(item) for item in nested)


def _holds_objects(value: object) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
    )


def _first_difference(canonical: bytes, text: bytes) -> int:
    pairs = zip(canonical.splitlines(), text.splitlines(), strict=False)
    return next((number for number, (a, b) in enumerate(pairs, start=1) if a != b), 1)


def _facts(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _facts(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from _facts(item, f"{path}[{_name(item, index)}]")
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)


def _name(item: object, index: int) -> str:
    names = (item.get(key) for key in _NAMES) if isinstance(item, dict) else ()
    return next((name for name in names if isinstance(name, str)), str(index))
