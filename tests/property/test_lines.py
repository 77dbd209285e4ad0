"""The line finder against generated TOML, whose writer notes the line of all it writes."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builder.read.lines import Loc, key_lines


@dataclass
class Table:
    """A table: pairs before sub-tables, as TOML wants it."""

    pairs: dict[str, Any]
    tables: dict[str, Any] = field(default_factory=dict)


BARE = st.text("abAB01-_", min_size=1, max_size=4)
QUOTED = st.text(st.sampled_from("a.b #\"'[]{}=\n\\é"), max_size=4)
KEYS = st.one_of(BARE, BARE, QUOTED)
SCALARS = st.one_of(
    st.integers(-9, 10**6).map(str),
    st.sampled_from(
        ["true", "0.5", "1e3", "1979-05-27", "1979-05-27 07:32:00", "'x # ]}'", "''", '""']
    ),
    st.text(st.sampled_from("a#\"'[]{},=\\ é"), max_size=8).map(json.dumps),
    st.sampled_from(
        [
            '"""\n# no comment\n[no.table]\nno = "key"\n"""',
            '""""quoted""""',
            '"""a\\"""b"""',
            '"""ends in two"""""',
            "'''\n[[no]]\n''two''\n'''",
            "'''\n\\'''''",
            '""""""',
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(list),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=6,
)
TABLES = st.recursive(
    st.dictionaries(KEYS, VALUES, max_size=3).map(Table),
    lambda inner: st.builds(
        lambda pairs, tables: Table(pairs, {k: v for k, v in tables.items() if k not in pairs}),
        st.dictionaries(KEYS, VALUES, max_size=3),
        st.dictionaries(KEYS, inner | st.lists(inner, min_size=1, max_size=3), max_size=3),
    ),
    max_leaves=6,
)


class Writer:
    """Writes TOML in a layout that hypothesis draws, and notes every line."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.text = ""
        self.lines: dict[Loc, int] = {(): 1}

    def draw(self, options: list[str]) -> str:
        return self.data.draw(st.sampled_from(options))

    def mark(self, loc: Loc) -> None:
        self.lines[loc] = self.text.count("\n") + 1

    def blank(self) -> None:
        self.text += self.draw(["", "\n", "# a, [no] = 'x\n", "  ", '\n\n\t# """\n'])

    def name(self, key: str) -> str:
        plain = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
        literal = "'" not in key and "\n" not in key
        return self.draw([json.dumps(key)] + [key] * plain + [f"'{key}'"] * literal)

    def dotted(self, path: list[str]) -> str:
        return self.draw([".", " . ", "\t."]).join(self.name(part) for part in path)

    def table(self, table: Table, loc: Loc, names: list[str]) -> None:
        for key, value in table.pairs.items():
            self.blank()
            self.pair(key, value, loc)
            self.text += self.draw(["\n", " # x = 1\n"])
        for key, value in table.tables.items():
            path = [*names, key]
            if isinstance(value, list):
                for number, item in enumerate(value):
                    self.header(path, (*loc, key, number), "[[", "]]")
                    self.lines.setdefault((*loc, key), self.lines[*loc, key, number])
                    self.table(item, (*loc, key, number), path)
            else:
                self.header(path, (*loc, key), "[", "]")
                self.table(value, (*loc, key), path)

    def header(self, names: list[str], loc: Loc, left: str, right: str) -> None:
        self.blank()
        self.mark(loc)
        self.text += left + self.draw(["", " "]) + self.dotted(names) + f"{right} # h\n"

    def pair(self, key: str, value: object, loc: Loc) -> None:
        self.mark((*loc, key))
        self.text += self.name(key) + self.draw(["=", " = ", "\t=\t"])
        self.value(value, (*loc, key))

    def value(self, value: object, loc: Loc) -> None:
        if isinstance(value, str):
            self.text += value
        elif isinstance(value, list):
            self.text += "["
            for number, item in enumerate(value):
                self.blank()
                self.mark((*loc, number))
                self.value(item, (*loc, number))
                self.text += self.draw([",", "\n,", " , # ,\n"])
            self.blank()
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{"
            for number, (key, item) in enumerate(value.items()):
                self.text += ", " * (number > 0)
                self.pair(key, item, loc)
            self.text += " }"


@given(TABLES, st.data())
def test_every_value_is_found_on_the_line_it_was_written_to(
    table: Table, data: st.DataObject
) -> None:
    writer = Writer(data)
    writer.table(table, (), [])
    tomllib.loads(writer.text)
    assert key_lines(writer.text) == writer.lines


def paths(value: object, loc: Loc = ()) -> set[Loc]:
    children: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return {loc}.union(*(paths(child, (*loc, key)) for key, child in children))


PIECES = """
[a] | [a.b] | [[c]] | [c.d] | [[c.e]] | [ c . e . f ] | g.h.i = 1 | g.h.j = 2 | s.'t.u' = ''
| k = [{l = 1},% {m.n = 2}] | o = {p.q = 1, p.r = [% [], [1]]} | [v.w.x] | [v] | [v.w] | # z = 1 |
"""


@given(st.lists(st.sampled_from(PIECES.replace("\n", " ").split("|")), max_size=8))
def test_the_lines_are_of_just_the_values_that_a_reader_finds_in_any_order(
    pieces: list[str],
) -> None:
    text = "\n".join(pieces).replace("%", "\n")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(key_lines(text)) == paths(document)


def test_an_inline_table_may_span_lines() -> None:
    """TOML 1.1 allows it; tomllib of Python 3.11 does not, so no generated text has it."""
    assert key_lines("a = {\n  b = 1, # c = 2\n  d = [\n    3,\n  ],\n}\n") == {
        (): 1,
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "d"): 3,
        ("a", "d", 0): 4,
    }


def test_a_table_has_the_line_of_its_own_header_even_when_a_sub_table_comes_first() -> None:
    assert key_lines("[a.b]\n\n[a]\nc = 1\n")["a",] == 3
