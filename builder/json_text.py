"""JSON that others wrote, read as strictly as several readers of one text must agree on it."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 64
"""Lists and objects in one another; what walks over a document later may recurse freely."""

_WHOLE_NUMBERS: Final = range(-(2**63), 2**64)
_DIGITS: Final = 20
_TOO_DEEP: Final = f"lists or objects are nested more than {MAX_DEPTH} deep"
_HALF: Final = re.compile("[\ud800-\udfff]")


class JsonTextError(ValueError):
    """The bytes are no JSON that is read; `line` is 1 where the place is not known."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse_json(raw: bytes) -> object:
    """The value in the bytes, which are UTF-8 without a byte order mark; JsonTextError otherwise.

    Refuses what readers take differently: a key that an object has twice, NaN and Infinity, whole
    numbers of more than 64 bits, halves of surrogate pairs, and nesting deeper than MAX_DEPTH.
    """
    if raw.startswith(BOM_UTF8):
        reason = "a byte order mark at its start"
        raise JsonTextError(reason)
    try:
        value: object = json.loads(
            raw.decode(),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_int=_whole_number,
        )
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        reason = f"byte 0x{raw[error.start]:02x} at offset {error.start} is not UTF-8"
        raise JsonTextError(reason, line) from error
    except json.JSONDecodeError as error:
        raise JsonTextError(error.msg, error.lineno) from error
    except RecursionError as error:
        raise JsonTextError(_TOO_DEEP) from error
    _check(value)
    return value


def _check(value: object) -> None:
    """Nothing, if depth and text are as they may be; without recursion."""
    level: list[object] = [value]
    depth = 0
    while level:
        depth += any(isinstance(item, dict | list) for item in level)
        if depth > MAX_DEPTH:
            raise JsonTextError(_TOO_DEEP)
        level = [inner for item in level for inner in _inside(item)]


def _inside(item: object) -> list[Any]:
    if isinstance(item, str):
        if not item.isascii() and _HALF.search(item):
            reason = "half of a surrogate pair in a text"
            raise JsonTextError(reason)
        return []
    if isinstance(item, dict):
        return [*item, *item.values()]
    return item if isinstance(item, list) else []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        reason = f"the key {twice[:60]!a} twice in one object"
        raise JsonTextError(reason)
    return found


def _whole_number(digits: str) -> int:
    if len(digits) <= _DIGITS and (number := int(digits)) in _WHOLE_NUMBERS:
        return number
    reason = "a whole number of more than 64 bits"
    raise JsonTextError(reason)


def _refuse_constant(name: str) -> NoReturn:
    reason = f"{name} is no JSON"
    raise JsonTextError(reason)
