"""The text of lockfile.json: writing it, reading it, and what differs between two of them."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from builder.digest import digest_bytes
from builder.lock import LOCK_VERSION, Lock
from builder.lock_errors import (
    LockConflictError,
    LockInvalidError,
    LockNotCanonicalError,
    LockNotJsonError,
    LockVersionError,
)
from builder.read.problems import problems_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.digest import Digest, JsonValue
    from builder.read.loaded import LoadedManifest


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


def lock_text(lock: Lock) -> bytes:
    """The canonical bytes of a lock, with a newline at the end.

    Keys in the models' order, two spaces, and each object that holds no other on a line of its own
    in its list: a reviewer's diff is made of whole facts. All beyond ASCII is escaped, so that
    a review shows every character, also those that reverse or hide text.
    """
    return f"{_rendered(lock.model_dump(mode='json'), '')}\n".encode("ascii")


def lock_digest(text: bytes) -> Digest:
    """The digest of a lock's bytes: what containers, reports and labels name it by."""
    return digest_bytes(text)


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
        document: object = json.loads(text.decode())
        json.dumps(document, ensure_ascii=False).encode()  # refuses halves of surrogate pairs
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        problem = f"byte 0x{text[error.start]:02x} at offset {error.start} is not UTF-8"
        raise LockNotJsonError(place, line, problem) from error
    except json.JSONDecodeError as error:
        raise LockNotJsonError(place, error.lineno, error.msg) from error
    except (ValueError, RecursionError) as error:  # beyond Python's limits, or no text
        raise LockNotJsonError(place, 1, type(error).__name__) from error
    return document


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
    shown = ascii(line.decode())
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


_SHOWN: Final = 100


def staleness(lock: Lock, loaded: LoadedManifest) -> tuple[Difference, ...]:
    """What is not as it was when the lock was made: own files, the model's files, the manifest."""
    found = [
        Difference(file.source, file.digest, loaded.own_files[file.source].digest)
        for file in lock.image.files
        if file.source in loaded.own_files  # else the manifest changed, which is told below
        and loaded.own_files[file.source].digest != file.digest
    ]
    folder = loaded.manifest.model.files
    if folder is not None:
        locked = {file.path: file.digest for file in lock.model.files}
        present = {file.path: file.digest for file in loaded.model_files}
        found += [
            Difference(f"{folder}/{path}", locked.get(path), present.get(path))
            for path in sorted(locked.keys() | present.keys())
            if locked.get(path) != present.get(path)
        ]
    if lock.cluster_digest != loaded.cluster_digest:
        found.append(Difference("the manifest", lock.cluster_digest, loaded.cluster_digest))
    return tuple(found)


def differences(before: JsonValue, after: JsonValue) -> tuple[Difference, ...]:
    """Every fact that differs between two JSON values, such as two locks, in the locks' order.

    Objects in a list go by their target, path, name or key instead of their position, so that one
    more of them is one difference; another order of the same is one too. None at all means that
    the values are equal.
    """
    old, new = dict(_facts(before, "")), dict(_facts(after, ""))
    return tuple(
        Difference(path, _shown(old.get(path)), _shown(new.get(path)))
        for path in dict.fromkeys([*old, *new])
        if old.get(path) != new.get(path) and not _is_told_by_items(path, old, new)
    )


def _facts(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    """Each fact's path and JSON text; a list of plain values is one fact."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _facts(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        names = list(_item_names(value))
        for name, item in zip(names, value, strict=True):
            yield from _facts(item, f"{path}[{name}]")
        yield f"{path}{_ORDER}", json.dumps(names)
    else:
        yield path, json.dumps(value)


_ORDER: Final = " (order)"


def _is_told_by_items(path: str, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether a list's order differs because items came or went, each a difference of its own."""
    if not path.endswith(_ORDER):
        return False
    before, after = (json.loads(facts.get(path, "[]")) for facts in (old, new))
    return sorted(before) != sorted(after)


def _item_names(items: list[JsonValue]) -> Iterator[str]:
    """A name for each item of a list; later uses of a name are numbered, so that none hides."""
    uses: Counter[str] = Counter()
    for number, item in enumerate(items):
        names = [item.get(key) for key in _NAMING] if isinstance(item, dict) else []
        name = next((name for name in names if isinstance(name, str)), str(number))
        uses[name] += 1
        yield name if uses[name] == 1 else f"{name} #{uses[name]}"


_NAMING: Final = ("target", "path", "name", "key")


def _shown(fact: str | None) -> str | None:
    """A fact for people: text without its quotes."""
    return fact if fact is None or not fact.startswith('"') else str(json.loads(fact))
