"""Locks of every shape: their text, reading it again, and what differs between two of them."""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.differences import differences
from builder.digest import digest_bytes
from builder.errors import LockError
from builder.lock import Lock
from builder.lockfile import lock_text, parse_lock

GOOD = (Path(__file__).parents[1] / "unit/lock/sample.json").read_bytes()

TEXTS = st.text(max_size=4)
PARTS = st.text(st.characters(categories=("L", "N", "So")), min_size=1, max_size=3)
BY_MEANING = {
    "a digest": st.binary(max_size=1).map(digest_bytes),
    "an absolute path": st.lists(PARTS, min_size=1, max_size=2).map(lambda p: "/" + "/".join(p)),
    "an octal mode of four digits": st.integers(0, 0o7777).map(lambda mode: f"{mode:04o}"),
    "an octal mode": st.integers(0, 0o777).map(lambda mode: f"{mode:04o}"),
    "a variable's name": st.sampled_from(["A", "B_1", "_c"]),
    "a relative path": st.lists(PARTS, min_size=1, max_size=2).map("/".join),
    "a Python name": st.sampled_from(["A", "b.C"]),
    "module:Class": st.sampled_from(["a:B", "a.b:C"]),
    "a name in lower case": st.sampled_from(["ours", "our-models"]),
    "at most 63 of": st.sampled_from(["tiny", "a.b"]),
    "text": PARTS,
    "a reason": PARTS,
}
"""Values of the kinds in builder/values.py, by how each begins to say what it takes."""


def values(kind: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - annotations have no type
    """Any value that an annotation of the lock's models allows."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        said = next((str(item.text) for item in arguments if hasattr(item, "text")), "")
        meant = (BY_MEANING[start] for start in BY_MEANING if said.startswith(start))
        meaning = next(meant, None)
        found: st.SearchStrategy[Any] = values(arguments[0]) if meaning is None else meaning
    elif origin in (types.UnionType, typing.Union):
        found = st.one_of(*(values(argument) for argument in arguments))
    elif origin is Literal:
        found = st.sampled_from(arguments)
    elif origin is tuple and arguments[-1] is ...:
        found = st.lists(values(arguments[0]), max_size=2)
    elif origin is tuple:
        found = st.tuples(*(values(argument) for argument in arguments)).map(list)
    elif origin is dict:
        found = st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    else:
        found = PLAIN[kind] if kind in PLAIN else records(kind)
    return found


PLAIN: dict[object, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: st.integers(0, 2**53),
    type(None): st.none(),
}


def records(model: type[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The JSON objects of a model."""
    hints = typing.get_type_hints(model, include_extras=True)
    return st.fixed_dictionaries({name: values(hints[name]) for name in model.model_fields})


DOCUMENTS = records(Lock)


def lock_of(document: dict[str, Any]) -> Lock:
    return Lock.model_validate_json(json.dumps(document))


@settings(max_examples=40)
@given(DOCUMENTS)
def test_a_lock_is_read_as_it_was_written(document: dict[str, Any]) -> None:
    lock = lock_of(document)
    text = lock_text(lock)
    assert parse_lock(text, place="lockfile.json") == lock
    assert json.loads(text) == json.loads(lock.model_dump_json())


@settings(max_examples=40)
@given(DOCUMENTS)
def test_the_text_does_not_depend_on_the_order_of_keys_in_what_was_read(
    document: dict[str, Any],
) -> None:
    assert lock_text(lock_of(turned(document))) == lock_text(lock_of(document))


def turned(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The value with the keys of every object in reverse."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=40)
@given(DOCUMENTS, DOCUMENTS, st.integers(0, 200))
def test_two_locks_have_a_difference_just_when_their_texts_differ(
    first: dict[str, Any], second: dict[str, Any], mixed: int
) -> None:
    """The second takes over most of the first, so that small differences come up too."""
    second = mix(first, second, [mixed])
    one, two = (json.loads(lock_of(document).model_dump_json()) for document in (first, second))
    assert bool(differences(one, two)) == (lock_text(lock_of(first)) != lock_text(lock_of(second)))
    swapped = {(item.path, item.after, item.before) for item in differences(two, one)}
    assert {(item.path, item.before, item.after) for item in differences(one, two)} == swapped


def mix(first: Any, second: Any, left: list[int]) -> Any:  # noqa: ANN401 - JSON
    """The first value with one part of it, far enough along, from the second."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return {key: mix(first[key], second[key], left) for key in first}
    left[0] -= 1
    return second if left[0] == 0 else first


@settings(max_examples=100)
@given(st.integers(0, len(GOOD)), st.integers(0, 3), st.binary(max_size=2))
def test_a_spoilt_lock_is_the_same_lock_or_a_lock_error(
    start: int, length: int, inserted: bytes
) -> None:
    text = GOOD[:start] + inserted + GOOD[start + length :]
    try:
        lock = parse_lock(text, place="lockfile.json")
    except LockError as error:
        messages = error.messages
        assert all(message.remedy for message in messages)
    else:
        assert lock_text(lock) == text
