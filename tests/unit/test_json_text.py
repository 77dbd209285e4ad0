from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.json_text import MAX_DEPTH, JsonTextError, parse_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_what_every_reader_takes_alike_is_taken(value: object, ascii_only: bool) -> None:  # noqa: FBT001
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "Expecting value"),
        ("{}\n{}", 2, "Extra data"),
        ("{\n'a': 1}", 2, "Expecting property name"),
        ("\ufeff1", 1, "byte order mark"),
        ('{"a":1,"b":2,"a":1}', 1, "the key 'a' twice"),
        ('{"a":1,"\\u0061":1}', 1, "the key 'a' twice"),
        ('[{"x":{"é":1,"é":2}}]', 1, "the key '\\xe9' twice"),
        ("NaN", 1, "NaN is no JSON"),
        ("[-Infinity]", 1, "-Infinity is no JSON"),
        (str(2**64), 1, "more than 64 bits"),
        (str(-(2**63) - 1), 1, "more than 64 bits"),
        ("1" * 100_000, 1, "more than 64 bits"),
        ('"\\ud800"', 1, "half of a surrogate pair"),
        ('{"\\udfff":1}', 1, "half of a surrogate pair"),
        ('["\\udc00\\ud800"]', 1, "half of a surrogate pair"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), 1, "nested"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), 1, "nested"),
        ("[" * 10**6, 1, "nested"),
    ],
)
def test_what_readers_take_differently_is_refused(text: str, line: int, reason: str) -> None:
    with pytest.raises(JsonTextError) as caught:
        parse_json(text.encode())

    assert caught.value.line == line
    assert reason in caught.value.reason


def test_bytes_that_are_no_text_are_told_with_their_place() -> None:
    with pytest.raises(JsonTextError) as caught:
        parse_json(b'{\n"a": "\xff"}')

    assert (caught.value.line, caught.value.reason) == (2, "byte 0xff at offset 8 is not UTF-8")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_as_deep_as_may_be_is_read(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    text = opening * (MAX_DEPTH - 1) + "[1]" + closing * (MAX_DEPTH - 1)

    assert json.loads(text) == parse_json(text.encode())
