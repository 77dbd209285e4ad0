"""Places as text, and values as errors show them."""

from __future__ import annotations

import pytest

from builder.read.problems import loc_of, loc_text, value_text


@pytest.mark.parametrize(
    ("loc", "text"),
    [
        ((), ""),
        (("name",), "name"),
        (("nodes", 1, "fabric", "hcas", 0), "nodes[1].fabric.hcas[0]"),
        (("serve", "args", "max-model-len"), "serve.args.max-model-len"),
        (("container", "env", 'a "b".c'), 'container.env."a \\"b\\".c"'),
        (("a", "", "é"), 'a.""."\\u00e9"'),
    ],
)
def test_a_place_is_written_and_read(loc: tuple[str | int, ...], text: str) -> None:
    assert loc_text(loc) == text
    assert loc_of(text) == loc


def test_a_value_is_shown_short_and_on_one_line() -> None:
    assert value_text("a\nb\x1b") == '"a\\nb\\u001b"'
    assert value_text("x" * 500) == '"' + "x" * 99 + "..."
    assert value_text([1, 2]) == "a list of 2"
    assert value_text([]) == "an empty list"
    assert value_text({"a": "secret"}) == "a table"
    assert value_text(value=True) == "true"
