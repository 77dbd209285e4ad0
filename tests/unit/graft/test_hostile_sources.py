"""Python sources that no parser takes, or no reader of syntax trees: refused by name."""

from __future__ import annotations

import pytest

from builder.digest import digest_bytes
from builder.graft.imports import ModuleName
from builder.graft.names import names_of
from builder.graft.parsed import Parsed
from builder.graft.syntax import MAX_SOURCE_BYTES, TOO_DEEP, SourceError, parse_source
from builder.graft.table_errors import ModuleUnreadableError
from builder.graft.tables import edit_table

DEEP = {
    "minus signs": b"x = " + b"-" * 100_000 + b"1",
    "attributes": b"a" + b".b" * 100_000,
    "sums": b"x = " + b"1 + " * 50_000 + b"1",
    "branches": b"if 1:\n pass\n" + b"elif 1:\n pass\n" * 5000,
    "calls": b"a" + b"()" * 3000,
    "negations": b"x = " + b"not " * 3000 + b"1",
}


@pytest.mark.parametrize("source", DEEP.values(), ids=DEEP)
def test_what_overflows_the_parser_is_no_source(source: bytes) -> None:
    with pytest.raises(SourceError) as caught:
        parse_source(source)
    assert caught.value.reason == TOO_DEEP


def test_a_source_of_megabytes_is_not_parsed() -> None:
    with pytest.raises(SourceError) as caught:
        parse_source(b"#" * (MAX_SOURCE_BYTES + 1))
    assert str(MAX_SOURCE_BYTES) in caught.value.reason
    parse_source(b"#" * MAX_SOURCE_BYTES)


@pytest.mark.parametrize("depth", [100, 400, 900])
def test_a_tree_that_the_parser_just_takes_is_read_and_edited(depth: int) -> None:
    source = b"T = {'a': ('b', 'c')}\n__all__ = x" + b".b" * depth + b"\n"
    name = ModuleName("m", is_package=False)

    assert "T" in Parsed().fact(names_of, digest_bytes(source), name, lambda _: source).bound
    edit = edit_table(source, {"d": ("e", "f")}, table="T", place="test")
    assert edit.after.startswith(b"T = {'a': ('b', 'c'), \"d\": (\"e\", \"f\")}\n")


def test_an_edit_that_overflows_is_told_as_an_unreadable_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def overflow(*_args: object, **_kwargs: object) -> None:
        raise RecursionError

    monkeypatch.setattr("builder.graft.tables.find_table", overflow)
    with pytest.raises(ModuleUnreadableError) as caught:
        edit_table(b"T = {}", {"d": ("e", "f")}, table="T", place="test")
    assert TOO_DEEP in str(caught.value)


def test_a_reader_that_overflows_refuses_the_source_for_good() -> None:
    def endless(tree: object, name: ModuleName) -> object:
        return endless(tree, name)

    parsed, source = Parsed(), b"x = 1"
    for _ in range(2):
        with pytest.raises(SourceError) as caught:
            parsed.fact(
                endless, digest_bytes(source), ModuleName("m", is_package=False), lambda _: source
            )
        assert caught.value.reason == TOO_DEEP
