"""What differs between two locks, and between a lock and what it was made from."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.lock import own_sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from builder.digest import JsonValue
    from builder.lock import Lock
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


def staleness(lock: Lock, loaded: LoadedManifest) -> tuple[Difference, ...]:
    """What is not as it was when the lock was made: own files, the model's files, the manifest."""
    own = dict(own_sources(lock.image))
    there = {source: file.digest for source, file in loaded.own_files.items()}
    asks_for_others = lock.cluster_digest != loaded.cluster_digest  # which is told below
    named = own.keys() & there.keys() if asks_for_others else own.keys() | there.keys()
    found = [
        Difference(source, own.get(source), there.get(source))
        for source in sorted(named)
        if own.get(source) != there.get(source)
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
    elif not lock.model.files:
        found.append(Difference(f"the files of {loaded.manifest.model.repo}", None, "by SHA-256"))
    if lock.cluster_digest != loaded.cluster_digest:
        found.append(Difference("the manifest", lock.cluster_digest, loaded.cluster_digest))
    return tuple(found)


def lock_differences(before: Lock, after: Lock) -> tuple[Difference, ...]:
    """Every fact that differs between two locks; none means that their bytes are equal."""
    if before == after:
        return ()
    return differences(before.model_dump(mode="json"), after.model_dump(mode="json"))


def differences(before: JsonValue, after: JsonValue) -> tuple[Difference, ...]:
    """Every fact that differs between two JSON values, such as two locks, in the locks' order.

    Objects in a list go by their target, path, name, key or finding instead of their position, so
    that one more of them is one difference; another order of the same is one too. None at all means
    that the values are equal.
    """
    old, new = dict(_facts(before, "")), dict(_facts(after, ""))
    return tuple(
        Difference(path, _shown(old.get(path)), _shown(new.get(path)))
        for path in dict.fromkeys([*old, *new])
        if old.get(path) != new.get(path) and not _is_told_by_items(path, old, new)
    )


def told(changes: Sequence[Difference]) -> tuple[str, ...]:
    """The differences, each on one line; an item of a list that came or went is a single one."""
    whole = {}
    for change in changes:
        item, _, key = change.path.rpartition("].")
        if item and key in _NAMING and None in (change.before, change.after):
            whole[f"{item}]"] = "gone" if change.after is None else "new"
    lines = []
    for change in changes:
        ends = (found.start() + 1 for found in re.finditer(r"\]\.", change.path))
        item = next((change.path[:end] for end in ends if change.path[:end] in whole), "")
        lines.append(f"{item}: {whole[item]}" if item else change.text())
    return tuple(dict.fromkeys(lines))


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


_NAMING: Final = ("target", "path", "name", "key", "finding")


def _shown(fact: str | None) -> str | None:
    """A fact for people: text without its quotes."""
    return fact if fact is None or not fact.startswith('"') else str(json.loads(fact))
