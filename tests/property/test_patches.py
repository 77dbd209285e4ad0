"""Diffs of any two files: applied they give the second; to any other file they are not applied."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from builder.errors import BuildError, Message
from builder.graft.patch import parse_diff, paths_in
from builder.graft.patch_apply import apply_patch
from builder.graft.patch_errors import PatchMismatchError

LINES = st.sampled_from(
    [
        *(b"a\n", b"b\n", b"\n", b" \n", b"a\r\n", b"\xff\x85\n", b"\x0c\n"),
        *(b"--- a\n", b"+++ b\n", b"@@ -1 +1 @@\n", b"diff --git a/x b/x\n", b"-- \n"),
        b"\\ No newline at end of file\n",
    ]
)
ENDS = st.sampled_from([b"", b"", b"end", b"\r", b"-", b"\\"])
FILES = st.builds(lambda lines, end: b"".join(lines) + end, st.lists(LINES, max_size=12), ENDS)


def split(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def diff(old: bytes, new: bytes, context: int) -> bytes:
    """As `diff -u` writes it, by difflib."""
    made = difflib.diff_bytes(
        difflib.unified_diff, split(old), split(new), b"a/x", b"b/x", b"", b"", n=context
    )
    return b"".join(
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
        for line in made
    )


@given(FILES, FILES, st.integers(0, 3))
def test_a_diff_applied_gives_the_other_file(old: bytes, new: bytes, context: int) -> None:
    assume(old != new)
    parts = paths_in(parse_diff(diff(old, new, context), place="d"), place="d")

    assert list(parts) == ["x"]
    assert apply_patch(parts["x"], old, place="d", target="x") == new


@given(FILES, FILES, st.integers(0, 3), st.data())
def test_a_diff_is_not_applied_where_one_line_is_another(
    old: bytes, new: bytes, context: int, data: st.DataObject
) -> None:
    assume(old != new)
    (part,) = parse_diff(diff(old, new, context), place="d")
    touched = [hunk.start + n for hunk in part.hunks for n in range(len(hunk.old))]
    assume(touched)
    lines = split(old)
    number = data.draw(st.sampled_from(touched))
    lines[number] = b"other" + lines[number]

    with pytest.raises(PatchMismatchError) as caught:
        apply_patch(part, b"".join(lines), place="d", target="x")
    assert caught.value.line == number + 1


@given(st.binary(max_size=200) | st.lists(LINES | ENDS, max_size=9).map(b"".join))
def test_any_bytes_are_a_diff_or_refused_with_a_message(data: bytes) -> None:
    messages: tuple[Message, ...] = ()
    try:
        parts = paths_in(parse_diff(data, place="d"), place="d")
    except BuildError as error:
        parts, messages = {}, error.messages
    assert parts or messages
    assert all(message.remedy and message.found for message in messages)
