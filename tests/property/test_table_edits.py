from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builder.graft.tables import edit_table

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PAIRS = st.tuples(NAMES, NAMES)
GAPS = st.sampled_from(["", " ", "\n", "\n  ", "\n\t", "  # a, (b) {c}\n", "\n\n    # é\n    "])


@st.composite
def tables(draw: st.DrawFn) -> str:
    """A dict literal of pairs in some layout, all valid between braces."""
    parts = ["{", draw(GAPS)]
    items = draw(st.lists(st.tuples(NAMES, PAIRS), max_size=4))
    for index, (key, (module, name)) in enumerate(items):
        value = f"({module!r},{draw(GAPS)}{name!r}{draw(st.sampled_from(['', ',']))}{draw(GAPS)})"
        wrapped = f"({draw(GAPS)}{value})" if draw(st.booleans()) else value
        item = f"{key!r}{draw(GAPS)}:{draw(GAPS)}{wrapped}"
        comma = index < len(items) - 1 or draw(st.booleans())
        parts += [item, draw(GAPS), "," if comma else "", draw(GAPS)]
    return "".join([*parts, "}"])


@st.composite
def modules(draw: st.DrawFn) -> bytes:
    """A module with the table T, other text around it, and one style of line ends."""
    before = draw(
        st.sampled_from(["", '"""A\nregistry."""\n', "\ufeff", "\ufeff# é\n", "x = 'é'; "])
    )
    target = draw(st.sampled_from(["T = ", "T: dict = ", "U = T = "]))
    behind = draw(st.sampled_from(["", "\n", "  # end }\n", "; y = {}\n", "\ndef f(): ...\n"]))
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return (before + target + draw(tables()) + behind).replace("\n", newline).encode()


def table_of(source: bytes) -> dict[str, tuple[str, str]]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            found: dict[str, tuple[str, str]] = ast.literal_eval(node.value)
            return found
    raise AssertionError(source)


def new_entries(source: bytes, asked: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The entries asked, with the table's own value where it has the key."""
    return {key: table_of(source).get(key, value) for key, value in asked.items()}


ASKED = st.dictionaries(NAMES, PAIRS, min_size=1, max_size=4)


@given(modules(), ASKED)
def test_the_table_afterwards_is_the_table_before_and_the_entries_in_order(
    source: bytes, asked: dict[str, tuple[str, str]]
) -> None:
    entries = new_entries(source, asked)

    result = edit_table(source, entries, table="T", place="m")

    added = {entry.key: entry.value for entry in result.entries if entry.state == "added"}
    assert list(table_of(result.after).items()) == [*table_of(source).items(), *added.items()]
    assert added == {k: v for k, v in entries.items() if k not in table_of(source)}


@given(modules(), ASKED)
def test_text_is_only_inserted(source: bytes, asked: dict[str, tuple[str, str]]) -> None:
    after = edit_table(source, new_entries(source, asked), table="T", place="m").after

    rest = iter(after)
    assert all(byte in rest for byte in source)  # source is a subsequence of after


@given(modules(), ASKED)
def test_a_second_edit_changes_nothing(source: bytes, asked: dict[str, tuple[str, str]]) -> None:
    entries = new_entries(source, asked)
    once = edit_table(source, entries, table="T", place="m")

    twice = edit_table(once.after, entries, table="T", place="m")

    assert twice.after == once.after
    assert {entry.state for entry in twice.entries} == {"present"}


@given(modules(), ASKED)
def test_entries_one_by_one_give_the_same_bytes_as_all_together(
    source: bytes, asked: dict[str, tuple[str, str]]
) -> None:
    entries = new_entries(source, asked)
    one_by_one = source
    for key, value in entries.items():
        one_by_one = edit_table(one_by_one, {key: value}, table="T", place="m").after

    assert one_by_one == edit_table(source, entries, table="T", place="m").after


# --- other forms --------------------------------------------------------------------------------

WORDS = st.one_of(st.sampled_from(["a", "class", "ﬁ", "x-y"]), NAMES)
FORMS = [
    "dict({})",
    "OrderedDict([{}])",
    "[{}]",
    "({})",
    "frozenset([{}])",
    "MappingProxyType({{{}}})",
]


def written(form: str, key: str, value: object, gap: str) -> str:
    """An item of a table of the form."""
    if form == "dict({})":
        return f"{key}{gap}={gap}{value!r}" if key.isidentifier() else f"**{{{key!r}: {value!r}}}"
    if form == "OrderedDict([{}])":
        return f"({gap}{key!r}, {value!r})"
    return f"{key!r}:{gap}{value!r}" if form.startswith("Mapping") else f"{value!r}"


@st.composite
def other_modules(draw: st.DrawFn, kind: st.SearchStrategy[object]) -> bytes:
    """A module with the table T in another form than a dict literal."""
    form = draw(st.sampled_from(FORMS))
    items = draw(st.dictionaries(st.sampled_from(["k", "l", "m"]), kind, max_size=3))
    parts = [written(form, key, value, draw(GAPS)) + draw(GAPS) for key, value in items.items()]
    comma = draw(st.sampled_from(["", ","])) if parts else ""
    inner = (
        draw(GAPS) + f",{draw(GAPS)}".join(parts) + (comma or "," * (len(parts) == 1)) + draw(GAPS)
    )
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = f"# é\nT = {form.format(inner)}  # end\nU = 1\n"
    return text.replace("\n", newline).encode()


def value_of(source: bytes) -> Any:  # noqa: ANN401 - whatever the module says
    """What the table T is at run time."""
    names: dict[str, object] = {"OrderedDict": OrderedDict, "MappingProxyType": MappingProxyType}
    exec(source, names)  # noqa: S102 - the module is this test's own
    return names["T"]


@given(st.data(), st.sampled_from([NAMES, PAIRS]))
def test_a_table_of_any_form_has_the_entries_at_run_time(
    data: st.DataObject, kind: st.SearchStrategy[object]
) -> None:
    source = data.draw(other_modules(kind))
    before = value_of(source)
    drawn = data.draw(st.dictionaries(WORDS, kind, min_size=1, max_size=3))
    wanted: Any
    entries: Any
    if isinstance(before, Mapping):
        entries = {key: before.get(key, value) for key, value in drawn.items()}
        wanted = dict(before) | entries
    else:
        entries = tuple(drawn.values())
        more = [item for item in entries if item not in before]
        wanted = before.union(more) if isinstance(before, frozenset) else [*before, *more]

    result = edit_table(source, entries, table="T", place="m")

    after = value_of(result.after)
    assert type(after) is type(before)
    assert type(wanted)(after) == wanted
    rest = iter(result.after)
    assert all(byte in rest for byte in source)
    assert edit_table(result.after, entries, table="T", place="m").after == result.after
