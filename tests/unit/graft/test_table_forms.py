"""Tables in every form in which Python writes them, and entries of every kind."""

from __future__ import annotations

import ast

import pytest

from builder.errors import BuildError
from builder.graft.table_errors import (
    ModuleUnreadableError,
    NameNotBoundError,
    TableAssignedTwiceError,
    TableChangedLaterError,
    TableConflictError,
    TableNotFoundError,
    TableNotLiteralError,
    TableShapeError,
)
from builder.graft.tables import Entries, TableEdit, edit_table
from builder.image_section import BareName

PLACE = "base: /usr/lib/config.py"
TEXT = {"qwen3_5": "Qwen3_5Config"}
PAIR = {"New": ("new", "New")}

LAZY = """\
_CONFIG_REGISTRY: dict[str, type[PretrainedConfig]] = LazyConfigDict(
    chatglm="ChatGLMConfig",
    deepseek_vl_v2="DeepseekVLV2Config",  # as in "DeepSeek (VL)"
    RefinedWeb="RWConfig",  # For tiiuae/falcon-40b(-instruct)
)
"""
HOOKS = """\
class AConfig(Hook): ...


MODELS_CONFIG_MAP: dict[str, type[Hook]] = {
    "AForCausalLM": AConfig,
}
"""


def edit(source: str, entries: Entries, *, table: str = "T") -> TableEdit:
    return edit_table(source.encode(), entries, table=table, place=PLACE)


def test_a_lazy_config_table_gains_a_keyword_and_keeps_all_else() -> None:
    result = edit(LAZY, TEXT, table="_CONFIG_REGISTRY")

    assert result.after.decode() == LAZY.replace("\n)", '\n    qwen3_5="Qwen3_5Config",\n)')
    assert [entry.state for entry in result.entries] == ["added"]


def test_a_hook_table_gains_a_class_by_its_bare_name() -> None:
    result = edit(HOOKS, {"BForCausalLM": BareName(name="AConfig")}, table="MODELS_CONFIG_MAP")

    assert result.after.decode() == HOOKS.replace("\n}", '\n    "BForCausalLM": AConfig,\n}')


FORMS = [
    pytest.param(
        'T = dict(a="b")\n', TEXT, 'T = dict(a="b", qwen3_5="Qwen3_5Config")\n', id="dict"
    ),
    pytest.param("T = LazyDict()", TEXT, 'T = LazyDict(qwen3_5="Qwen3_5Config")', id="no keyword"),
    pytest.param(
        "T = Lazy[str](  # (\n    # ):\n    a='b')",
        TEXT,
        "T = Lazy[str](  # (\n    # ):\n    a='b',\n    qwen3_5=\"Qwen3_5Config\")",
        id="brackets in comments",
    ),
    pytest.param(
        'T = (f)(a="b")', TEXT, 'T = (f)(a="b", qwen3_5="Qwen3_5Config")', id="function in parens"
    ),
    pytest.param(
        "T = dict(\n    A,\n    **B\n)",
        TEXT,
        'T = dict(\n    A,\n    **B,\n    qwen3_5="Qwen3_5Config",\n)',
        id="after unpacking",
    ),
    pytest.param(
        'T = dict(a="b")', {"class": "C"}, 'T = dict(a="b", **{"class": "C"})', id="reserved word"
    ),
    pytest.param(
        'T = dict(a="b")', {"qwen3-asr": "C"}, 'T = dict(a="b", **{"qwen3-asr": "C"})', id="dash"
    ),
    pytest.param('T = dict(a="b")', {"ﬁ": "C"}, 'T = dict(a="b", **{"ﬁ": "C"})', id="NFKC"),
    pytest.param(
        'T = OrderedDict([\n    ("k", ("m", "C")),\n])',
        PAIR,
        'T = OrderedDict([\n    ("k", ("m", "C")),\n    ("New", ("new", "New")),\n])',
        id="pairs in a call",
    ),
    pytest.param(
        "T = OrderedDict([])",
        TEXT,
        'T = OrderedDict([("qwen3_5", "Qwen3_5Config")])',
        id="none yet",
    ),
    pytest.param(
        'T = [("k", "v")]', TEXT, 'T = [("k", "v"), ("qwen3_5", "Qwen3_5Config")]', id="pairs"
    ),
    pytest.param(
        'T = MappingProxyType({"a": "b"})',
        TEXT,
        'T = MappingProxyType({"a": "b", "qwen3_5": "Qwen3_5Config"})',
        id="a dict in a call",
    ),
    pytest.param(
        'T = defaultdict(list, dict(a=["b"]))',
        {"c": ("d", "e")},
        'T = defaultdict(list, dict(a=["b"], c=["d", "e"]))',
        id="a call in a call; lists",
    ),
    pytest.param('T = A | {"a": "b"}', TEXT, 'T = A | {"a": "b", "qwen3_5": "Qwen3_5Config"}'),
    pytest.param('T = {"a": ["b"]}', {"c": ("d",)}, 'T = {"a": ["b"], "c": ["d"]}', id="lists"),
    pytest.param('T = {"a": ("b",)}', {"c": ("d",)}, 'T = {"a": ("b",), "c": ("d",)}', id="of one"),
    pytest.param(
        'import m\nT = {"a": (m.A, "b")}',
        {"c": (BareName(name="m.C"), "d")},
        'import m\nT = {"a": (m.A, "b"), "c": (m.C, "d")}',
        id="names and texts",
    ),
    pytest.param('T = ["a"]', ("b",), 'T = ["a", "b"]', id="list"),
    pytest.param("T = []", ("b", "c"), 'T = ["b", "c"]', id="empty list"),
    pytest.param("T = ()", ("b",), 'T = ("b",)', id="empty tuple"),
    pytest.param('T = ("a",)', ("b",), 'T = ("a", "b",)', id="tuple"),
    pytest.param('T = {"a"}', ("b",), 'T = {"a", "b"}', id="set"),
    pytest.param('T = frozenset({"a"})', ("b",), 'T = frozenset({"a", "b"})', id="frozenset"),
    pytest.param('T = A + ["a"]', ("b",), 'T = A + ["a", "b"]', id="sum"),
    pytest.param('T = [("a", "b")]', (("c", "d"),), 'T = [("a", "b"), ("c", "d")]', id="of pairs"),
    pytest.param('T = Literal["a"]', ("b",), 'T = Literal["a", "b"]', id="literal of one"),
    pytest.param(
        'T = t.Literal[\n    "a",\n    "c",\n]',
        ("b",),
        'T = t.Literal[\n    "a",\n    "c",\n    "b",\n]',
        id="literal",
    ),
    pytest.param(
        "import A\nT = [A]", (BareName(name="A.B"),), "import A\nT = [A, A.B]", id="names"
    ),
]


@pytest.mark.parametrize(("before", "entries", "after"), FORMS)
def test_entries_are_written_in_the_form_of_the_table(
    before: str, entries: Entries, after: str
) -> None:
    assert edit(before, entries).after.decode() == after
    again = edit(after, entries)
    assert again.after.decode() == after
    assert {entry.state for entry in again.entries} == {"present"}


NESTED = """\
_TABLES = {
    "text": {"a": ("b", "c")},
    "list": ["x"],
    "deep": [dict(k="v"), {"y": "z"}],
}
_CALL = Registry(name="main", models={"a": ("b", "c")}, first={"n": "m"})
_CHAIN = ChainMap({"a": "b"}, {"c": "d"})


class Models:
    TABLE = {"a": "b"}

    class Inner:
        LIST: list[str] = []
"""


@pytest.mark.parametrize(
    ("table", "entries", "old", "new"),
    [
        ('_TABLES["text"]', PAIR, '("b", "c")},\n', '("b", "c"), "New": ("new", "New")},\n'),
        ('_TABLES["list"]', ("y",), '["x"]', '["x", "y"]'),
        ('_TABLES["deep"][0]', {"q": "r"}, 'dict(k="v")', 'dict(k="v", q="r")'),
        ('_TABLES["deep"][1]', {"q": "r"}, '"y": "z"', '"y": "z", "q": "r"'),
        ('_CALL["models"]', PAIR, '"c")}, first', '"c"), "New": ("new", "New")}, first'),
        ("_CHAIN[1]", {"q": "r"}, '"c": "d"', '"c": "d", "q": "r"'),
        ("Models.TABLE", {"q": "r"}, 'TABLE = {"a": "b"', 'TABLE = {"a": "b", "q": "r"'),
        ("Models.Inner.LIST", ("y",), "= []", '= ["y"]'),
    ],
)
def test_a_table_inside_of_another_is_named_by_its_place(
    table: str, entries: Entries, old: str, new: str
) -> None:
    assert NESTED.count(old) == 1
    assert edit(NESTED, entries, table=table).after.decode() == NESTED.replace(old, new)


@pytest.mark.parametrize(
    ("table", "entries", "found"),
    [
        ('_TABLES["texts"]', PAIR, '_TABLES["text"], _TABLES["list"], _TABLES["deep"]'),
        ('_TABLES["deep"][2]', PAIR, '_TABLES["deep"]['),
        ("Models.TABEL", PAIR, "Models.TABLE, "),
        ("Model.TABLE", PAIR, "Models.TABLE, "),
        ("_CHAINS", PAIR, "_CHAIN, "),
    ],
)
def test_a_table_that_is_not_there_is_told_with_near_ones(
    table: str, entries: Entries, found: str
) -> None:
    with pytest.raises(TableNotFoundError) as caught:
        edit(NESTED, entries, table=table)

    (message,) = caught.value.messages
    assert message.found.startswith(f"its tables: {found}")


def test_a_call_with_several_tables_is_ambiguous_and_names_them() -> None:
    with pytest.raises(TableNotLiteralError) as caught:
        edit(NESTED, TEXT, table="_CHAIN")

    assert sorted(caught.value.tables) == ["_CHAIN[0]", "_CHAIN[1]"]
    assert all(name in str(caught.value) for name in caught.value.tables)


def test_a_table_among_the_options_of_a_call_is_named_when_the_kind_does_not_fit() -> None:
    with pytest.raises(TableShapeError) as caught:
        edit(NESTED, PAIR, table="_CALL")

    assert '_CALL["models"], _CALL["first"]' in str(caught.value)


@pytest.mark.parametrize(
    ("source", "entries"),
    [
        ('T = {"a": "b"}', ("c",)),
        ('T = dict(a="b")', ("c",)),
        ('T = ["a"]', TEXT),
        ("T = []", TEXT),
        ('T = ["a", ("b", "c")]', TEXT),
        ('T = {"a"}', TEXT),
    ],
)
def test_entries_of_the_other_kind_are_refused(source: str, entries: Entries) -> None:
    with pytest.raises(TableNotLiteralError) as caught:
        edit(source, entries)

    (message,) = caught.value.messages
    wanted = "entries = { key = value }" if isinstance(entries, dict) else "entries = [ value ]"
    assert message.what == f"T is no table for {wanted}"


@pytest.mark.parametrize(
    ("source", "entries", "wanted"),
    [
        ('T = {"a": ("b", "c")}', TEXT, '"Qwen3_5Config"'),
        ('T = {"a": ("b", "c")}', {"d": ("e",)}, '("e",)'),
        ('T = {"a": ("b", "c")}', {"d": BareName(name="str")}, "str"),
        ("T = {'a': A}", TEXT, '"Qwen3_5Config"'),
        ("T = dict(a=1)", TEXT, '"Qwen3_5Config"'),
        ("T = [('a', 'b')]", ("c",), '"c"'),
    ],
)
def test_a_value_of_another_kind_than_the_tables_is_refused(
    source: str, entries: Entries, wanted: str
) -> None:
    with pytest.raises(TableShapeError) as caught:
        edit(source, entries)

    assert caught.value.messages[0].expected == f"values like {wanted}"


@pytest.mark.parametrize(
    "source",
    [
        'T = dict({"k": "old"}, x="y")',
        'T = dict({"x": "y"}, k="old")',
        'T = dict(x="y", **{"k": "old"})',
        'A = {"k": "old"}\nT = dict(A, x="y")',
        'A = dict(k="old")\nT = {**A, "x": "y"}',
        'A = {"k": "old"}\nT = A | {"x": "y"}',
        'T = OrderedDict([("k", "old")])',
        'T = {"x": "y"}\nT["k"] = "old"\n',
    ],
)
def test_an_entry_is_known_wherever_the_table_gets_it_from(source: str) -> None:
    with pytest.raises(TableConflictError):
        edit(source, {"k": "new"})

    same = edit(source, {"k": "old"})
    assert same.after == source.encode()
    assert [entry.state for entry in same.entries] == ["present"]


@pytest.mark.parametrize("source", ['A = ["k"]\nT = [*A, "x"]', 'A = ("k",)\nT = ["x"] + list(A)'])
def test_an_entry_of_a_list_is_known_wherever_the_list_gets_it_from(source: str) -> None:
    assert edit(source, ("k",)).entries[0].state == "present"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("T = {}\n", "no name like it"),
        ("T = {}\nclass AConfig: ...\n", "AConfig is bound later, in line 2"),
        ("if TYPE_CHECKING:\n    from x import AConfig\nT = {}\n", "no name like it"),
        ("class AConfigs: ...\nT = {}\n", "near names: AConfigs"),
    ],
)
def test_a_bare_name_that_the_module_does_not_know_is_refused(source: str, found: str) -> None:
    with pytest.raises(NameNotBoundError) as caught:
        edit(source, {"a": BareName(name="AConfig.B")})

    assert caught.value.messages[0].found.startswith(found)


@pytest.mark.parametrize(
    "source",
    [
        "from x import *\nT = {}\n",
        "from x import AConfig\nT = {}\n",
        "try:\n    from x import AConfig\nexcept ImportError:\n    AConfig = None\nT = {}\n",
    ],
)
def test_a_bare_name_may_come_from_anywhere_above(source: str) -> None:
    assert b'{"a": AConfig}' in edit(source, {"a": BareName(name="AConfig")}).after


def test_a_class_that_is_defined_twice_is_refused() -> None:
    with pytest.raises(TableAssignedTwiceError):
        edit("class C:\n    T = {}\nclass C:\n    T = {}\n", TEXT, table="C.T")


HOSTILE = [
    "T = dict(x for x in y)",
    "T = {**{**{**{}}}}",
    "T = f(*a, **k)",
    'T = ("a"), ("b")',
    'T = "a", "b"',
    "T = [x for x in y]",
    'T = {"a": lambda: {"b": "c"}}',
    'T = f"{x!r:{w}}"',
    "T = A.T = B.T",
    "T: dict",
    "T = Literal[('a', 'b')]",
    "T = A = T",
    "T = {**T}",
    "T = T | {}",
    "A = {**T}\nT = {**A}",
    "A = [*T]\nT = [*A]",
    'T = {"a": "b" "c"}  # \\',
    "T = dict(\n)\\\n",
]


DEEP = {
    "a sum": "x = " + "+".join(["1"] * 950),
    "a longer sum": "x = " + "+".join(["1"] * 20000),
    "signs": "x = " + "-" * 5000 + "1",
    "attributes": "x = y" + ".z" * 5000,
    "brackets": "x = " + "[" * 5000 + "]" * 5000,
    "in the table": "T = {'a': " + "+".join(["'b'"] * 950) + "}",
    "a table in tables": "T = " + "{'a': " * 90 + "'b'" + "}" * 90,
    "elif": "if a: ...\n" + "elif b: ...\n" * 2000,
}


@pytest.mark.parametrize("source", DEEP.values(), ids=DEEP)
def test_nesting_without_end_is_refused_or_does_not_matter(source: str) -> None:
    text = source if source.startswith("T") else f"{source}\nT = {{}}\n"
    try:
        after = edit(text, TEXT).after
    except (ModuleUnreadableError, TableShapeError) as error:
        after = b"refused: " + str(error).encode()
    assert b"Qwen3_5Config" in after or b"nested too deeply" in after or b"too many" in after


@pytest.mark.parametrize("entries", [TEXT, PAIR, ("a",), (("a", "b"),)], ids=repr)
@pytest.mark.parametrize("source", HOSTILE)
def test_odd_sources_are_edited_right_or_refused(source: str, entries: Entries) -> None:
    try:
        after = edit(source, entries).after
    except BuildError:
        return
    ast.parse(after)
    rest = iter(after)
    assert all(byte in rest for byte in source.encode())


@pytest.mark.parametrize(
    "later",
    [
        'del T["a"]',
        "del T",
        'T.pop("a", None)',
        "T.clear()",
        'T.update(a="B")',
        'T.update({"a": "B"})',
        'if True:\n    T["a"] = "B"',
        'for T["a"] in ("B", "C"):\n    pass',
        'try:\n    T.pop("a")\nfinally:\n    pass',
    ],
)
@pytest.mark.parametrize("before", ['T = {"a": "A"}', 'T = {"b": "A"}', 'T = dict(a="A")'])
def test_no_entry_is_promised_that_the_module_takes_away_again(before: str, later: str) -> None:
    with pytest.raises(TableChangedLaterError) as caught:
        edit(f"{before}\n{later}\n", {"a": "A"})
    assert caught.value.messages[0].place.startswith(f"{PLACE}:")


@pytest.mark.parametrize(
    "later",
    [
        'del T["c"]',
        'T.pop("c", None)',
        'T.update(c="A")',
        'U.pop("a")',
        'T["a"] = "A"',
        'def f() -> None:\n    T.pop("a")',
        "T.update(U)",
        'T.get("a")',
    ],
)
def test_what_a_module_does_to_others_is_its_own_business(later: str) -> None:
    assert edit(f'T = {{"b": "A"}}\n{later}\n', {"a": "A"}).entries


def test_an_inner_table_that_is_replaced_later_is_refused() -> None:
    with pytest.raises(TableChangedLaterError):
        edit('T = {"x": {"a": "A"}}\nT["x"] = {}\n', {"b": "B"}, table='T["x"]')


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ('T = {"x"} | ({"a"} - {"n"})\n', '{"x", "n"}'),
        ('T = ["a"] + without(["n"])\n', '["a", "n"]'),
        ('T = ["a", *without(["n"])]\n', '*without(["n"]), "n"]'),
    ],
)
def test_what_an_expression_takes_away_or_a_function_makes_is_not_there(
    source: str, after: str
) -> None:
    assert after in edit(source, ("n",)).after.decode()


def test_what_an_unknown_function_makes_of_a_dict_is_not_there() -> None:
    made = edit('T = {"a": "A", **without({"n": "N"})}\n', {"n": "N"})
    assert made.entries[0].state == "added"
