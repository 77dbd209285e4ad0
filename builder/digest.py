"""Digests and canonical bytes; the only module that calls hashlib."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, NewType, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

JsonValue: TypeAlias = "str | int | bool | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

Digest = NewType("Digest", str)
"""`sha256:` and 64 lower-case hex digits."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


class NotADigestError(ValueError):
    """The text is not a sha256 digest."""

    def __init__(self, text: str) -> None:
        super().__init__(f"expected sha256: and 64 lower-case hex digits, found {text!r}")


def parse_digest(text: str) -> Digest:
    """The text as a Digest; NotADigestError if it is not `sha256:` and 64 lower-case hex digits."""
    if not _DIGEST.match(text):
        raise NotADigestError(text)
    return Digest(text)


def hex_of(digest: Digest) -> str:
    """The 64 hex digits of a digest."""
    return digest.removeprefix("sha256:")


def digest_bytes(data: bytes) -> Digest:
    """The digest of bytes held in memory."""
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def git_sha1(data: bytes) -> str:
    """The name that Git gives to a file of these bytes: 40 hex digits, of a SHA-1."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Hasher:
    """Digest and size of bytes that come in chunks."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._hash.update(chunk)
        self.size_bytes += len(chunk)

    def digest(self) -> Digest:
        """The digest of all bytes taken so far."""
        return Digest("sha256:" + self._hash.hexdigest())

    def tee(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, hashed as they pass."""
        for chunk in chunks:
            self.update(chunk)
            yield chunk


class FloatInCanonicalJsonError(TypeError):
    """A float has no one spelling, so it may not enter canonical JSON."""

    def __init__(self, value: float) -> None:
        super().__init__(f"canonical JSON takes no float, found {value!r}; pass its text")


def canonical_json(value: JsonValue) -> bytes:
    """UTF-8 JSON with sorted keys, no white space, no newline at the end and no floats.

    The same value gives the same bytes on every machine and Python; digests of configs and
    manifests stand on it, so it must never change (docs/decisions/0001).
    """
    _refuse_floats(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def _refuse_floats(value: object) -> None:
    if isinstance(value, float):
        raise FloatInCanonicalJsonError(value)
    if isinstance(value, dict):
        for item in value.values():
            _refuse_floats(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_floats(item)
