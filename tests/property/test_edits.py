"""One value of a generated TOML text changed or added: nothing but its bytes differs."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from builder.read.edit import with_text_value
from builder.read.lines import Loc, span_of
from tests.property.test_lines import TABLES, Table, Writer

NEW = st.sampled_from(["sha256:" + "a" * 64, "", "x", "vendor"])


class Dotted(Writer):
    """A writer that also gives the values of small tables one by one, under dotted names."""

    def table(self, table: Table, loc: Loc, names: list[str]) -> None:
        flat = [key for key, value in table.pairs.items() if isinstance(value, dict) and value]
        dotted = {key for key in flat if self.draw(["", "dotted"])}
        rest = {key: value for key, value in table.pairs.items() if key not in dotted}
        for key in sorted(dotted):
            for inner, value in table.pairs[key].items():
                self.blank()
                self.text += self.dotted([key, inner]) + self.draw(["=", " = "])
                self.value(value, (*loc, key, inner))
                self.text += self.draw(["\n", " # x = 1\n"])
        super().table(Table(rest, table.tables), loc, names)


def tables_of(value: object, loc: Loc = ()) -> list[Loc]:
    """The place of every table that holds a value which is no table."""
    found: list[Loc] = []
    if isinstance(value, dict):
        if any(not isinstance(item, dict | list) for item in value.values()):
            found.append(loc)
        for key, item in value.items():
            found += tables_of(item, (*loc, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            found += tables_of(item, (*loc, number))
    return found


def at(document: object, loc: Loc) -> Any:  # noqa: ANN401 - TOML's values
    value: Any = document
    for part in loc:
        value = value[part]
    return value


def meaning(document: object) -> str:
    """A document as text: nan is not equal to itself."""
    return json.dumps(document, sort_keys=True, default=repr)


@given(TABLES, st.data(), NEW)
def test_only_the_bytes_of_the_value_differ(table: Table, data: st.DataObject, new: str) -> None:
    writer = Dotted(data)
    writer.table(table, (), [])
    plain = writer.text.removesuffix("\n") if writer.draw(["", "no end"]) else writer.text
    assume("1979" not in plain)  # tomlkit takes the space after a date for a part of it
    document = tomllib.loads(plain)
    places = tables_of(document)
    assume(places)
    place = data.draw(st.sampled_from(places))
    there = at(document, place)
    siblings = sorted(key for key, item in there.items() if not isinstance(item, dict | list))
    after = data.draw(st.sampled_from(siblings))
    texts = [key for key in siblings if isinstance(there[key], str)]
    key = data.draw(st.sampled_from([*texts, "digest"]))
    assume(not isinstance(there.get(key, ""), dict | list | int | float))
    mark, end = writer.draw(["", "\ufeff"]), writer.draw(["\n", "\r\n"])
    before = mark + plain.replace("\n", end)

    made = with_text_value(before, (*place, key), new, after=after)

    old = there.get(key)
    there[key] = new
    read = made.removeprefix("\ufeff").replace("\r\n", "\n")
    assert meaning(tomllib.loads(read)) == meaning(document)
    assert made.startswith(mark)
    if end == "\r\n" and end in before:
        assert "\n" not in made.replace(end, "")
    head, tail = ends_of(before, made)
    gone, come = before[head : len(before) - tail], made[head : len(made) - tail]
    if old is None:
        assert gone == ""
        assert "digest" in come
        return
    span = span_of(plain, (*place, key))
    assert span is not None
    assert read.startswith(plain[: span.start])
    assert read.endswith(plain[span.stop :])
    rest = read[span.start : len(read) - len(plain[span.stop :])]
    assert rest in (f'"{new}"', f"'{new}'")


def ends_of(before: str, after: str) -> tuple[int, int]:
    """How many characters two texts have in common at their beginnings, then at their ends."""
    least = min(len(before), len(after))
    head = next((n for n in range(least) if before[n] != after[n]), least)
    back = next((n for n in range(least - head) if before[-1 - n] != after[-1 - n]), least - head)
    return head, back
