"""One value of a TOML text put in or replaced, while every other byte stays as it is.

tomlkit keeps comments and layout, but not always: it moves tables that stand between the items of
a list, and takes no byte order mark. So it gets only the statement that is concerned, and what it
made is compared with what was asked before anybody sees it.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable, String, Whitespace

from builder.read.lines import span_of, statement_at

if TYPE_CHECKING:
    from builder.read.lines import Loc

BOM: Final = "\ufeff"


class NotEditableError(ValueError):
    """The text cannot be edited without touching more than the one value."""


def with_text_value(text: str, loc: Loc, value: str, *, after: str) -> str:
    r"""The TOML text with a text value at a place; a new key stands right after its sibling.

    `text` has its own line ends and byte order mark, and is valid. `after` is a key of the same
    table that is there. The value gets the kind of quotes that it had.
    Raises NotEditableError, and never gives a text that differs in more than this value.
    """
    mark = BOM if text.startswith(BOM) else ""
    body = text.removeprefix(BOM)
    plain = body.replace("\r\n", "\n")
    span = span_of(plain, loc)
    statement = statement_at(plain, loc if span else (*loc[:-1], after))
    rows = body.split("\n")
    start = sum(len(row) + 1 for row in rows[: statement.first - 1])
    end = min(len(body), sum(len(row) + 1 for row in rows[: statement.last]))
    try:
        piece = _edited(body[start:end], loc[len(statement.table) :], value, windows="\r\n" in body)
    except (TOMLKitError, KeyError, TypeError) as error:
        raise NotEditableError(str(error)) from error
    made = body[:start] + piece + body[end:]
    _require_alone(plain, made.replace("\r\n", "\n"), loc, value, span)
    return mark + made


def _edited(piece: str, path: Loc, value: str, *, windows: bool) -> str:
    r"""One statement with the value; in a file of Windows, a new line ends as the others do."""
    windows = windows and piece.count("\n") == piece.count("\r\n")
    document = tomlkit.parse(piece.replace("\r\n", "\n") if windows else piece)
    table: Any = document
    for part in path[:-1]:
        table = table[part]
    key = str(path[-1])
    old = table.get(key)
    literal = isinstance(old, String) and old.as_string().startswith("'")
    item = tomlkit.string(value, literal=literal)
    if old is None and isinstance(table, InlineTable):
        _append(table, key, item)
    else:
        table[key] = item
    made = tomlkit.dumps(document)
    return made.replace("\n", "\r\n") if windows else made


def _append(table: InlineTable, key: str, item: String) -> None:
    """Put a new key last, before the space that stands before the closing brace."""
    body = table.value.body
    last = body[-1][1]
    if isinstance(last, Whitespace):
        body.pop()
    item.trivia.indent = " "
    table[key] = item
    if isinstance(last, Whitespace):
        table.add(last)


def _require_alone(before: str, after: str, loc: Loc, value: str, span: slice | None) -> None:
    """Nothing, if the texts differ in just this value, which stood at `span` or was not there."""
    document = tomllib.loads(before)
    table: Any = document
    for part in loc[:-1]:
        table = table[part]
    table[loc[-1]] = value
    try:
        made = tomllib.loads(after)
    except tomllib.TOMLDecodeError as error:
        raise NotEditableError(str(error)) from error
    kept = _kept(before, after, span)
    if not kept or _meaning(made) != _meaning(document):
        raise NotEditableError(after)


def _kept(before: str, after: str, span: slice | None) -> bool:
    """Whether all that stands around the value, or everything there was, is there still."""
    if span is not None:
        head, tail = before[: span.start], before[span.stop :]
        return after.startswith(head) and after[len(head) :].endswith(tail)
    pairs = enumerate(zip(before, after, strict=False))
    size = next((number for number, (old, new) in pairs if old != new), len(before))
    return after.endswith(before[size:])


def _meaning(document: dict[str, Any]) -> str:
    """The document as text: unlike its values, that tells nan from nothing else."""
    return json.dumps(document, sort_keys=True, default=repr)
