"""Whatever happens to cluster.toml's text, reading it ends in a manifest or in a ManifestError."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.edges.files import read_manifest
from builder.errors import ManifestError, Message
from builder.read.lines import Loc, key_lines
from builder.read.problems import loc_of, loc_text

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = (Path(__file__).parents[2] / "cluster.toml").read_bytes()
LINES = GOOD.splitlines(keepends=True)
VALUES = [
    *('""', '"x"', '"/a/../b"', '"a\\u0000b"', "'''\n'''", "0", "-1", "99999999999999999999"),
    *("0.5", "nan", "-inf", "true", "1979-05-27", "07:32:00", "[]", "[[]]", "[1, 'a']", "{}"),
    *("{ a = 1 }", "[{}]", '{ "" = {} }', '"198.18.77.11"', '"127.0.0.1"', '"é"'),
]
"""Values that a key may get instead of its own."""

SPLICE = st.sampled_from(
    [
        *(b'"', b"'", b"[", b"]", b"{", b"}", b"=", b".", b",", b"#", b"\\", b"0", b"nodes"),
        *(b"\n", b"\r", b"\t", b" ", b"\0", b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf"),
        *(b'"""', b"[[", b"]]"),
    ]
)


def line_changes(draw: Callable[..., Any], text: bytes) -> bytes:
    lines = text.splitlines(keepends=True) or [b"\n"]
    first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match draw(st.sampled_from(["delete", "double", "swap", "replace", "value"])):
        case "delete":
            del lines[first]
        case "double":
            lines.insert(second, lines[first])
        case "swap":
            lines[first], lines[second] = lines[second], lines[first]
        case "replace":
            lines[first] = draw(st.sampled_from(LINES))
        case _:
            key, equals, _ = lines[first].partition(b"=")
            if equals:
                lines[first] = key + b"= " + draw(st.sampled_from(VALUES)).encode() + b"\n"
    return b"".join(lines)


def byte_changes(draw: Callable[..., Any], text: bytes) -> bytes:
    start = draw(st.integers(0, len(text)))
    end = start + draw(st.integers(0, 3))
    inserted: bytes = draw(st.one_of(st.just(b""), SPLICE))
    return text[:start] + inserted + text[end:]


@st.composite
def spoilt(draw: Callable[..., Any]) -> bytes:
    """The committed manifest after one to three changes of lines, values or bytes."""
    text = GOOD
    for change in draw(
        st.lists(st.sampled_from([line_changes, byte_changes]), min_size=1, max_size=3)
    ):
        text = change(draw, text)
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the committed manifest names."""
    folder = tmp_path_factory.mktemp("manifest")
    (folder / "examples/lab/model").mkdir(parents=True)
    (folder / "examples/lab/model/config.json").write_text("{}")
    (folder / "examples/lab/chat_template.jinja").write_text("")
    return folder


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=spoilt())
def test_no_text_ends_in_a_traceback_and_every_problem_is_told_in_full(
    folder: Path, text: bytes
) -> None:
    file = folder / "cluster.toml"
    file.write_bytes(text)
    messages = problems_of(file)
    for message in messages:
        assert message.place.startswith(f"{file}:")
        assert message.what
        assert message.remedy
        assert "\n" not in message.text().replace("\n  ", "")
    lines = [int(message.place.removeprefix(f"{file}:").split(":")[0]) for message in messages]
    assert lines == sorted(lines)
    assert all(line <= text.count(b"\n") + 1 for line in lines)


def problems_of(file: Path) -> tuple[Message, ...]:
    try:
        read_manifest(file)
    except ManifestError as error:
        return error.messages
    return ()


@settings(max_examples=150)
@given(text=spoilt())
def test_lines_are_found_for_just_the_values_that_a_text_has(text: bytes) -> None:
    try:
        document = tomllib.loads(text.decode())
    except ValueError:
        return
    assert set(key_lines(text.decode().replace("\r\n", "\n"))) == set(paths(document, ()))


def paths(value: object, loc: Loc) -> list[Loc]:
    children: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [loc, *(found for key, child in children for found in paths(child, (*loc, key)))]


@given(st.lists(st.one_of(st.integers(0, 10**6), st.text(max_size=5))).map(tuple))
def test_a_place_is_read_as_it_was_written(loc: Loc) -> None:
    assert loc_of(loc_text(loc)) == loc
