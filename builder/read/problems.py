"""What is wrong with a document, value by value: where, what was expected, found, and what to do.

pydantic finds all wrong values of a document at once but tells them to programmers. Here they
become problems that a person can act on, with the key that was probably meant.
"""

from __future__ import annotations

import difflib
import json
import re
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel

from builder.image_section import LIST_TAG, TABLE_TAG
from builder.values import Expected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

    from builder.read.lines import Loc


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend; `loc` is the way to it from the document's root."""

    loc: Loc
    what: str
    remedy: str
    expected: str = ""
    found: str = ""


MISSING: Final = object()
"""What `value_at` gives for a place that is not there."""


def loc_text(loc: Loc) -> str:
    """The place as a person writes it, such as `nodes[1].fabric.address`."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += "." * bool(text) + (part if plain else json.dumps(part))
    return text


def loc_of(text: str) -> Loc:
    """The place that `loc_text` writes so."""
    parts = re.findall(r'\[(\d+)\]|("(?:[^"\\]|\\.)*")|([^.\[\]"]+)', text)
    return tuple(
        int(number) if number else json.loads(quoted) if quoted else name
        for number, quoted, name in parts
    )


def repeated(named: Iterable[tuple[Loc, object]], what: str, *, remedy: str) -> Iterator[Problem]:
    """A problem for each value that has been there before, at the later place."""
    seen: dict[object, Loc] = {}
    for loc, value in named:
        first = seen.setdefault(value, loc)
        if first != loc:
            yield Problem(
                loc,
                what,
                expected="each once",
                found=f"{value}, also at {loc_text(first)}",
                remedy=remedy,
            )


def value_at(document: object, loc: Loc) -> object:
    """The value at a place of a document of dicts and lists; MISSING if there is none."""
    value: Any = document
    for part in loc:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return value


def value_text(value: object) -> str:
    """A value as an error shows it: short, on one line, and a list or table by its kind alone."""
    if isinstance(value, dict | list) or value is MISSING:
        return _kind(value)
    return shortened(json.dumps(value))


def shortened(text: str) -> str:
    """A text, or its beginning when that is enough to know it by."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_SHOWN: Final = 100


def _kind(value: object) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    names = {dict: "a table", str: "text", bool: "true or false", int: "a number"}
    return names.get(type(value), "a number" if isinstance(value, float) else "nothing")


def unknown_keys(error: ValidationError) -> tuple[Loc, ...]:
    """The place of every key that no model has."""
    found = (item for item in error.errors() if item["type"] == "extra_forbidden")
    return tuple(_in_document(item["loc"]) for item in found)


def _in_document(loc: Loc) -> Loc:
    """The place of an error without what pydantic adds where a value may have two forms."""
    return tuple(part for part in loc if part not in (TABLE_TAG, LIST_TAG))


def nearest_key(model: type[BaseModel], document: object, loc: Loc) -> str | None:
    """The key that an unknown one at `loc` was probably meant to be, unless that is there too."""
    table = value_at(document, loc[:-1])
    section = model_at(model, loc[:-1])
    if section is None or not isinstance(table, dict):
        return None
    near = difflib.get_close_matches(str(loc[-1]), fields_by_key(section), n=1)
    return near[0] if near and near[0] not in table else None


def problems_of(
    error: ValidationError, model: type[BaseModel], document: object
) -> tuple[Problem, ...]:
    """A problem for every error of a document that was validated as `model` in strict JSON mode."""
    return tuple(_translated(error.errors(include_url=False), model, document))


def _translated(
    errors: Iterable[ErrorDetails], model: type[BaseModel], document: object
) -> Iterator[Problem]:
    errors = [{**item, "loc": _in_document(item["loc"])} for item in errors]
    unknown = [item["loc"] for item in errors if item["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], nearest_key(model, document, loc)) for loc in unknown}
    for item in errors:
        loc = item["loc"]
        if loc and loc[-1] == "[key]" and value_at(document, loc) is MISSING:
            yield _wrong_name(loc[:-1], item)
        elif item["type"] == "extra_forbidden":
            yield _unknown(loc, model, document)
        elif item["type"] == "missing":
            if loc not in meant:
                yield _missing(loc, model)
        elif not _counts_only_valid_items(item):
            yield _wrong(loc, item, model)


def _counts_only_valid_items(item: ErrorDetails) -> bool:
    """Whether the list is too short just because its items are wrong, and told as such already."""
    if item["type"] != "too_short" or not isinstance(item["input"], list | dict):
        return False
    return len(item["input"]) >= int(item["ctx"]["min_length"])


def _wrong_name(loc: Loc, item: ErrorDetails) -> Problem:
    return Problem(
        loc,
        "this name cannot be used",
        expected=item["msg"],
        found=value_text(loc[-1]),
        remedy=f"choose another name for {loc_text(loc)}",
    )


def _unknown(loc: Loc, model: type[BaseModel], document: object) -> Problem:
    section = model_at(model, loc[:-1])
    known = ", ".join(sorted(fields_by_key(section))) if section is not None else ""
    near = nearest_key(model, document, loc)
    return Problem(
        loc,
        "unknown key",
        expected=f"one of {known}",
        found=value_text(loc[-1]),
        remedy=f"did you mean {near}? Rename it" if near else f"remove {loc_text(loc)}",
    )


def _missing(loc: Loc, model: type[BaseModel]) -> Problem:
    section, key = model_at(model, loc[:-1]), loc[-1]
    if section is None or isinstance(key, int):
        return Problem(
            loc,
            "the list is too short",
            expected=f"at least {int(key) + 1} items",
            found=f"a list of {key}",
            remedy=f"add {loc_text(loc)}",
        )
    place = loc_text(loc)
    if model_at(model, loc) is not None:
        place = f"a table [{place}]"
    elif model_at(model, (*loc, 0)) is not None:
        place = f"a table [[{place}]]"
    return Problem(
        loc,
        "missing",
        expected=_meaning(fields_by_key(section)[key]),
        found="nothing",
        remedy=f"add {place}",
    )


def _wrong(loc: Loc, item: ErrorDetails, model: type[BaseModel]) -> Problem:
    value = item["input"]
    expected = _expected(item)
    if item["type"] == "tuple_type" and model_at(model, (*loc, 0)) is not None:
        expected = f"a list of tables, each under a header [[{loc_text(loc)}]]"
    secret = "env" in loc  # variables may hold tokens, and errors end up in shared logs
    return Problem(
        loc,
        "wrong value",
        expected=expected,
        found=_kind(value) if secret else value_text(value),
        remedy=_quotes(annotation_at(model, loc), value) or f"correct {loc_text(loc)}",
    )


def _quotes(kind: object, value: object) -> str | None:
    """The remedy when nothing but the quotes are wrong."""
    if kind is str and isinstance(value, int | float):
        return "put the value in quotes"
    if kind is int and isinstance(value, str) and re.fullmatch(r"[0-9]+", value):
        return "remove the quotes"
    if kind is bool and value in ("true", "false"):
        return "remove the quotes"
    return None


_EXPECTED: Final = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "model_type": "a table",
    "dict_type": "a table",
    "tuple_type": "a list",
    "too_short": "a list of at least {min_length} items",
    "too_long": "a list of at most {max_length} items",
    "literal_error": "{expected}",
}


def _expected(item: ErrorDetails) -> str:
    """What pydantic wanted, in TOML's words; errors of our own values say it themselves."""
    template = _EXPECTED.get(item["type"])
    if item["type"] == "too_short" and isinstance(item["input"], dict):
        template = "a table of at least {min_length} entries"
    if template is None:
        return item["msg"]
    return template.format(**item.get("ctx", {})).replace("'", '"')


def _meaning(field: FieldInfo) -> str:
    """What a field is for: its own description, else its section's first line."""
    if field.description:
        return field.description
    section = _bare(field.annotation)
    if isinstance(section, type) and issubclass(section, BaseModel) and section.__doc__:
        return section.__doc__.splitlines()[0]
    return next((item.text for item in field.metadata if isinstance(item, Expected)), "a value")


def fields_by_key(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """A model's fields by the key that the document has for each."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """The model of the table at a place; None if something else is there."""
    kind = annotation_at(model, loc)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def annotation_at(model: type[BaseModel], loc: Loc) -> object:
    """The plain annotation of the value at a place; None if the model knows no such place."""
    kind: Any = model
    for part in loc:
        kind = _inside(_bare(kind), part)
    return _bare(kind)


def _inside(kind: Any, part: str | int) -> Any:  # noqa: ANN401 - annotations have no type
    """The annotation of a key or item of what is annotated with `kind`; None if there is none."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = fields_by_key(kind).get(str(part))
        return field.annotation if field else None
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and isinstance(part, int):
        return arguments[0]
    if typing.get_origin(kind) is dict:
        return arguments[1]
    return None


def _bare(kind: Any) -> Any:  # noqa: ANN401 - annotations have no type
    """The annotation without Annotated and without `| None`."""
    origin = typing.get_origin(kind)
    if origin is Annotated:
        return _bare(typing.get_args(kind)[0])
    if origin in (types.UnionType, typing.Union):
        return _bare(typing.get_args(kind)[0])
    return kind
