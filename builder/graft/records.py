"""Findings as JSON, and back: for verdicts that are kept from one run to the next."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from builder.errors import Message
from builder.graft import findings, override_findings, table_findings
from builder.graft.mentions import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from builder.digest import JsonValue
    from builder.graft.findings import Finding

_KINDS: Final[dict[str, Any]] = {
    name: kind
    for module in (findings, override_findings, table_findings)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and is_dataclass(kind)
} | {"Entry": Entry, "Message": Message}


class UnknownRecordError(ValueError):
    """JSON that no finding of this version makes."""


def write_findings(found: Iterable[Finding]) -> bytes:
    """The findings as JSON."""
    return ascii_json([_written(item) for item in found])


def ascii_json(value: JsonValue) -> bytes:
    """One spelling of a value; text that came from bytes of no encoding is written too."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def read_findings(data: bytes) -> tuple[Finding, ...]:
    """The findings that `write_findings` wrote; UnknownRecordError for any other bytes."""
    try:
        found = _read(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnknownRecordError from error
    if not isinstance(found, tuple) or not all(map(is_dataclass, found)):
        raise UnknownRecordError
    return found


def _written(value: object) -> JsonValue:
    match value:
        case str() | int() | None:
            return value
        case tuple():
            return [_written(item) for item in value]
        case frozenset():
            return {"set": [_written(item) for item in sorted(value)]}
        case _:
            assert is_dataclass(value), value
            kept = {item.name: _written(getattr(value, item.name)) for item in fields(value)}
            return {"is": type(value).__name__, "with": kept}


def _read(value: Any) -> Any:  # noqa: ANN401 - JSON in, what it stands for out
    match value:
        case list():
            return tuple(map(_read, value))
        case {"set": list(items)}:
            return frozenset(map(_read, items))
        case {"is": str(kind), "with": dict(parts)}:
            return _KINDS[kind](**{name: _read(part) for name, part in parts.items()})
        case dict():
            raise UnknownRecordError
        case _:
            return value
