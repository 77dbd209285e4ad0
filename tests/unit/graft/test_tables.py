from __future__ import annotations

import ast

import pytest

from builder.errors import BuildError
from builder.graft.table_errors import (
    ModuleUnreadableError,
    TableAssignedTwiceError,
    TableConflictError,
    TableNotFoundError,
    TableNotLiteralError,
    TableNotProvenError,
    TableShapeError,
)
from builder.graft.tables import TableEdit, edit_table

PLACE = "base: /usr/lib/registry.py"
NEW = {"TinySpark": ("tiny_spark", "TinySpark")}

REGISTRY = '''\
# SPDX-License-Identifier: Apache-2.0
"""Whenever you add an architecture to this page, please also update the tests."""

from collections.abc import Set

_TEXT_GENERATION_MODELS = {
    # [Decoder-only]
    "AfmoeForCausalLM": ("afmoe", "AfmoeForCausalLM"),
    "Qwen3NextForCausalLM": ("qwen3_next", "Qwen3NextForCausalLM"),
}

_MULTIMODAL_MODELS = {
    "Qwen3OmniMoeThinkerForConditionalGeneration": (
        "qwen3_omni_moe_thinker",
        "Qwen3OmniMoeThinkerForConditionalGeneration",
    ),
    # [Encoder-decoder]
    "WhisperForConditionalGeneration": ("whisper", "WhisperForConditionalGeneration"),  # noqa: E501
}

_PREVIOUSLY_SUPPORTED_MODELS = {"Phi3SmallForCausalLM": "0.9.2"}

_VLLM_MODELS = {
    **_TEXT_GENERATION_MODELS,
    **_MULTIMODAL_MODELS,
}

_CONFIG_REGISTRY: dict[str, str] = LazyConfigDict(chatglm="ChatGLMConfig")


class Lazy:
    _INNER = {"a": ("b", "c")}
'''


def edit(
    source: str, entries: dict[str, tuple[str, str]] | None = None, *, table: str = "T"
) -> TableEdit:
    return edit_table(source.encode(), entries or NEW, table=table, place=PLACE)


def after(source: str, entries: dict[str, tuple[str, str]] | None = None) -> str:
    return edit(source, entries).after.decode()


def test_a_registry_gains_a_line_and_keeps_all_others() -> None:
    entry = '    "TinySpark": ("tiny_spark", "TinySpark"),\n'
    last = '    "Qwen3NextForCausalLM": ("qwen3_next", "Qwen3NextForCausalLM"),\n'

    result = edit(REGISTRY, table="_TEXT_GENERATION_MODELS")

    assert result.after.decode() == REGISTRY.replace(last, last + entry)
    assert [entry.state for entry in result.entries] == ["added"]


def test_an_entry_that_is_too_long_for_a_line_is_written_as_the_registry_writes_its_own() -> None:
    name = "Qwen3_5MoeForConditionalGeneration"
    last = '("whisper", "WhisperForConditionalGeneration"),  # noqa: E501\n'
    entry = f'    "{name}": (\n        "qwen3_5",\n        "{name}",\n    ),\n'

    result = edit(REGISTRY, {name: ("qwen3_5", name)}, table="_MULTIMODAL_MODELS")

    assert result.after.decode() == REGISTRY.replace(last, last + entry)


def test_88_columns_are_a_line_and_89_are_not() -> None:
    key = "K" * 36
    fits = after("T = {\n}\n", {key: ("m", "C" * 34)})
    breaks = after("T = {\n}\n", {key: ("m", "C" * 35)})

    assert len(fits.splitlines()[1]) == 88
    assert len(breaks.splitlines()) == 6


def test_entries_are_added_in_the_order_asked() -> None:
    entries = {"Z": ("z", "Z"), "A": ("a", "A")}

    assert after("T = {\n}\n", entries) == 'T = {\n    "Z": ("z", "Z"),\n    "A": ("a", "A"),\n}\n'


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param("T = {}\n", "T = {@}\n", id="empty"),
        pytest.param("T = { }", "T = {@ }", id="empty with a space, no newline at the end"),
        pytest.param("T = {\n}\n", "T = {\n    @,\n}\n", id="empty over two lines"),
        pytest.param(
            "T = {  # none\n    # yet\n}\n",
            "T = {  # none\n    # yet\n    @,\n}\n",
            id="only comments",
        ),
        pytest.param(
            'T = {"a": ("b", "c")}  # x\n', 'T = {"a": ("b", "c"), @}  # x\n', id="one line"
        ),
        pytest.param(
            'T = {"a": ("b", "c"),}\n', 'T = {"a": ("b", "c"), @,}\n', id="one line, comma"
        ),
        pytest.param('T = {"a": (("b", "c"))}\n', 'T = {"a": (("b", "c")), @}\n', id="parentheses"),
        pytest.param(
            'T = {\n  "a": ("b", "c")\n}\n', 'T = {\n  "a": ("b", "c"),\n  @,\n}\n', id="no comma"
        ),
        pytest.param(
            'T = {\n\t"a": ("b", "c")  # last, (really)\n\t# more }, {\n}\n',
            'T = {\n\t"a": ("b", "c"),  # last, (really)\n\t# more }, {\n\t@,\n}\n',
            id="no comma, comments after it, tabs",
        ),
        pytest.param(
            'T = {\n    "a": ("b", "c")  # why\n    ,\n}\n',
            'T = {\n    "a": ("b", "c")  # why\n    ,\n    @,\n}\n',
            id="comma on a line of its own",
        ),
        pytest.param(
            'T = {"a": ("b", "c"),\n     "d": ("e", "f")}\n',
            'T = {"a": ("b", "c"),\n     "d": ("e", "f"),\n     @}\n',
            id="hanging",
        ),
        pytest.param(
            'T = {"a": ("b", "c"),\n     "d": ("e", "f"), }\n',
            'T = {"a": ("b", "c"),\n     "d": ("e", "f"),\n     @, }\n',
            id="hanging, comma",
        ),
        pytest.param(
            'T = {"a": (\n    "b", "c"\n)}\n',
            'T = {"a": (\n    "b", "c"\n), @}\n',
            id="no own line",
        ),
        pytest.param(
            'O = {"a": ("b", "c")}\nT = {\n    **O,\n}\n',
            'O = {"a": ("b", "c")}\nT = {\n    **O,\n    @,\n}\n',
            id="unpacked",
        ),
        pytest.param(
            'O = {"a": ("b", "c")}\nT = {\n    **(O)\n}\n',
            'O = {"a": ("b", "c")}\nT = {\n    **(O),\n    @,\n}\n',
            id="unpacked in parentheses",
        ),
        pytest.param(
            'T = {"ä": ("b", "ö"), "日": ("本", "語")}\n',
            'T = {"ä": ("b", "ö"), "日": ("本", "語"), @}\n',
            id="columns are bytes",
        ),
        pytest.param(
            'T: dict[str, tuple[str, str]] = {\n    "a": ("b", "c"),\n    }\n',
            'T: dict[str, tuple[str, str]] = {\n    "a": ("b", "c"),\n    @,\n    }\n',
            id="annotated",
        ),
        pytest.param(
            'T: dict\nT = {"a": ("b", "c") \\\n}\n',
            'T: dict\nT = {"a": ("b", "c"), \\\n    @,\n}\n',
            id="declared before, backslash",
        ),
        pytest.param(
            "\ufeffT = {}; U = {}\n", "\ufeffT = {@}; U = {}\n", id="byte order mark in line 1"
        ),
    ],
)
def test_the_layout_of_a_table_is_kept(before: str, expected: str) -> None:
    assert after(before) == expected.replace("@", '"TinySpark": ("tiny_spark", "TinySpark")')


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_are_the_tables_own(newline: str) -> None:
    source = 'T = {\n    "a": ("b", "c")\n}\n'.replace("\n", newline)
    expected = 'T = {\n    "a": ("b", "c"),\n    "x": ("y", "z"),\n}\n'.replace("\n", newline)

    assert edit(source, {"x": ("y", "z")}).after == expected.encode()


def test_names_are_written_as_literals_whatever_they_hold() -> None:
    entries = {'a"\\\n{}': ("\x00\x7f", "\U0001f600'")}

    assert ast.literal_eval(after("T = {}").removeprefix("T = ")) == NEW
    assert ast.literal_eval(after("T = {}", entries).removeprefix("T = ")) == entries


def test_entries_that_are_all_there_change_nothing() -> None:
    asked = {"AfmoeForCausalLM": ("afmoe", "AfmoeForCausalLM")}

    result = edit(REGISTRY, asked, table="_TEXT_GENERATION_MODELS")

    assert result.after == REGISTRY.encode()
    assert [entry.state for entry in result.entries] == ["present"]


def test_only_what_is_missing_is_added() -> None:
    result = edit('T = {"a": ("b", "c")}', {"a": ("b", "c"), **NEW})

    assert [entry.state for entry in result.entries] == ["present", "added"]
    assert result.after.count(b'"a"') == 1


def test_an_entry_that_comes_through_another_table_is_present() -> None:
    asked = {"AfmoeForCausalLM": ("afmoe", "AfmoeForCausalLM")}

    assert edit(REGISTRY, asked, table="_VLLM_MODELS").entries[0].state == "present"


def test_other_values_of_known_keys_are_refused_all_at_once() -> None:
    source = 'T = {\n    "a": ("b", "c"),\n    "d": ["e", "f"],\n    "g": ("h", "i"),\n}\n'

    with pytest.raises(TableConflictError) as caught:
        edit(source, {"a": ("x", "c"), "d": ("e", "f"), "g": ("h", "i"), **NEW})

    first, second = caught.value.messages
    assert (first.place, first.found) == (f"{PLACE}:2", "('b', 'c')")
    assert (second.place, second.found) == (f"{PLACE}:3", "['e', 'f']")


def test_an_unknown_table_is_refused_with_the_tables_there_are() -> None:
    with pytest.raises(TableNotFoundError) as caught:
        edit(REGISTRY, table="_MULTIMODAL_MODEL")

    assert caught.value.messages[0].found.startswith("its tables: _MULTIMODAL_MODELS, _")
    assert "Lazy._INNER" in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "T = {}\nT = {}\n",
        "T = {}\nT |= {}\n",
        "T = {}\nif x:\n    T = {}\n",
        "T = {}\nimport T\n",
        "T = U = {}\ndef T(): ...\n",
    ],
)
def test_a_name_that_is_bound_twice_is_refused(source: str) -> None:
    with pytest.raises(TableAssignedTwiceError) as caught:
        edit(source)

    assert len(caught.value.lines) == 2


def test_names_of_other_scopes_are_not_the_tables() -> None:
    source = "T = {}\ndef f():\n    T = {}\nclass C:\n    T = {}\nx = [T for T in ()]\n"

    assert after(source).startswith('T = {"TinySpark"')


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("T = f()\n", "a call of f"),
        ("T = dict(x for x in y)\n", "a call of dict"),
        ("T = f(x, [])\n", "a list, whose entries have no keys"),
        ("T = []\n", "a list, whose entries have no keys"),
        ("T = Literal['a']\n", "a Literal, whose entries have no keys"),
        ("T = ChainMap({}, {})\n", "a call of ChainMap with 2 tables"),
        ("T = {k: v for k, v in x}\n", "a DictComp expression"),
        ("T, U = {}, {}\n", "one of several names that are assigned together"),
        ("if x:\n    T = {}\n", "bound inside another statement, or by a def, class or import"),
        ("def T(): ...\n", "bound inside another statement, or by a def, class or import"),
    ],
)
def test_what_is_not_a_dict_literal_is_refused(source: str, found: str) -> None:
    with pytest.raises(TableNotLiteralError) as caught:
        edit(source)

    assert caught.value.found == found


def test_a_table_that_does_not_register_classes_is_refused() -> None:
    with pytest.raises(TableShapeError) as caught:
        edit(REGISTRY, table="_PREVIOUSLY_SUPPORTED_MODELS")

    assert caught.value.sample == "'Phi3SmallForCausalLM': '0.9.2'"


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        (b"T = {\n\n", 1, "'{' was never closed"),
        (b"x = 1\nT = {'\xe4': 1}\n", 2, "bytes that are not UTF-8"),
        (b"# coding: latin-1\nT = {}\n", 0, "iso-8859-1 by its coding line, not UTF-8"),
        (b"# coding: klingon\nT = {}\n", 0, "unknown encoding: klingon"),
        (b"T = {}\0\n", 0, "a null byte"),
    ],
)
def test_a_module_that_cannot_be_read_is_refused(source: bytes, line: int, reason: str) -> None:
    with pytest.raises(ModuleUnreadableError) as caught:
        edit_table(source, NEW, table="T", place=PLACE)

    assert (caught.value.line, caught.value.reason) == (line, reason)


@pytest.mark.parametrize("written", [b"T = {}\n", b"T = {\n", b"T = {'TinySpark': ('m', 'C')}\n"])
def test_an_edit_that_cannot_be_proven_is_not_used(
    written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builder.graft.tables.with_entries", lambda *_: written)

    with pytest.raises(TableNotProvenError):
        edit("T = {}\n")


@pytest.mark.parametrize("source", ["T = {}\nT = {}\n", "T = f()\n", "U = {}\n", "T = {'a': 1}\n"])
def test_every_refusal_names_the_module_and_a_remedy(source: str) -> None:
    with pytest.raises(BuildError) as caught:
        edit(source)

    (message,) = caught.value.messages
    assert message.place.startswith(PLACE)
    assert message.remedy
