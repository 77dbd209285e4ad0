"""Diffs of every kind: read, refused, and applied at their stated lines."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from builder.graft.patch import parse_diff, paths_in
from builder.graft.patch_apply import apply_patch
from builder.graft.patch_errors import (
    DiffBinaryError,
    DiffEmptyError,
    DiffNotRegularError,
    DiffPathError,
    DiffRenamesError,
    DiffRepeatsError,
    DiffUnreadableError,
    PatchEndError,
    PatchLeavesRestError,
    PatchMismatchError,
    PatchNothingError,
    PatchTargetExistsError,
    PatchTargetMissingError,
)

OLD = b"one\ntwo\nthree\nfour\nfive\nsix\n"
HEAD = "--- a/x.py\n+++ b/x.py\n"
DIFF = f"{HEAD}@@ -2,3 +2,3 @@ def f():\n two\n-three\n+3\n four\n"


if TYPE_CHECKING:
    from pathlib import Path

    from builder.errors import BuildError


def patched(diff: str | bytes, before: bytes | None = OLD) -> bytes | None:
    data = diff if isinstance(diff, bytes) else diff.encode()
    (file,) = parse_diff(data, place="x.diff")
    return apply_patch(file, before, place="x.diff", target="/lib/x.py")


def test_a_hunk_is_applied_at_its_line() -> None:
    assert patched(DIFF) == OLD.replace(b"three", b"3")


@pytest.mark.parametrize(
    ("diff", "before", "after"),
    [
        pytest.param("@@ -1 +1 @@\n-a\n+b\n", b"a\n", b"b\n", id="one line"),
        pytest.param("@@ -0,0 +1 @@\n+b\n", b"a\n", b"b\na\n", id="at the start, no context"),
        pytest.param("@@ -1,0 +2 @@\n+b\n", b"a\nc\n", b"a\nb\nc\n", id="no context"),
        pytest.param("@@ -2 +1,0 @@\n-c\n", b"a\nc\n", b"a\n", id="removed, no context"),
        pytest.param("@@ -1,2 +1,3 @@\n a\n+\n \n", b"a\n\n", b"a\n\n\n", id="empty lines"),
        pytest.param("@@ -1,2 +1,3 @@\n a\n+b\n\n", b"a\n\n", b"a\nb\n\n", id="trimmed context"),
        pytest.param(
            "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", b"a", b"a\n", id="gains its end"
        ),
        pytest.param(
            "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n", b"a\n", b"a", id="loses its end"
        ),
        pytest.param(
            "@@ -1,2 +1,2 @@\n-a\n+b\n c\n\\ No newline at end of file\n",
            b"a\nc",
            b"b\nc",
            id="context without end",
        ),
        pytest.param(
            "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n", b"a\r\nb\r\n", b"a\r\nc\r\n", id="CRLF"
        ),
        pytest.param(
            "@@ -1 +1 @@\n-a\r\n+b\r\n\\ No newline at end of file\n", b"a\r\n", b"b\r", id="CR"
        ),
        pytest.param("@@ -1 +1 @@\n-a\r\n+a\n", b"a\r\n", b"a\n", id="line ends change"),
        pytest.param("@@ -1 +1 @@\n-a\rb\n+\x0c\x0b\n", b"a\rb\n", b"\x0c\x0b\n", id="no ends"),
        pytest.param("@@ -1 +1 @@\n--- a\n+++ b\n", b"-- a\n", b"++ b\n", id="like headers"),
        pytest.param(
            "@@ -1 +1 @@\n-a\n+b\n@@ -3,0 +4 @@\n+e\n",
            b"a\nc\nd\n",
            b"b\nc\nd\ne\n",
            id="two hunks",
        ),
        pytest.param("@@ -1 +0,0 @@\n-a\n", b"a\n", b"", id="emptied"),
    ],
)
def test_every_byte_is_as_the_diff_has_it(diff: str, before: bytes, after: bytes) -> None:
    assert patched(HEAD + diff, before) == after


def test_bytes_that_are_no_text_are_kept() -> None:
    diff = HEAD.encode() + b"@@ -1,2 +1,2 @@\n \xff\x85\xe2\x80\xa8\n-\xe9\n+\xc3\xa9\n"

    assert patched(diff, b"\xff\x85\xe2\x80\xa8\n\xe9\n") == b"\xff\x85\xe2\x80\xa8\n\xc3\xa9\n"


def test_a_new_and_a_deleted_file() -> None:
    new = "--- /dev/null\n+++ b/x.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    deleted = "--- a/x.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"

    assert patched(new, None) == b"a\nb\n"
    assert patched(deleted, b"a\nb\n") is None
    with pytest.raises(PatchTargetExistsError):
        patched(new, b"")
    with pytest.raises(PatchTargetMissingError):
        patched(deleted, None)
    with pytest.raises(PatchLeavesRestError):
        patched(deleted, b"a\nb\nc\n")


def test_empty_files_come_and_go_and_modes_change_without_a_hunk() -> None:
    git = "diff --git a/x.py b/x.py\n"
    (new,) = parse_diff(f"{git}new file mode 100755\nindex 000..e69\n".encode(), place="d")
    (gone,) = parse_diff(f"{git}deleted file mode 100644\nindex e69..000\n".encode(), place="d")
    (mode,) = parse_diff(f"{git}old mode 100644\nnew mode 100755\n".encode(), place="d")
    (index,) = parse_diff(f"{git}index 1..2 100755\n{DIFF}".encode(), place="d")

    assert (new.kind, new.mode, apply_patch(new, None, place="d", target="t")) == (
        "new",
        0o755,
        b"",
    )
    assert (gone.kind, apply_patch(gone, b"", place="d", target="t")) == ("deleted", None)
    assert (mode.mode, apply_patch(mode, b"a", place="d", target="t")) == (0o755, b"a")
    assert index.mode is None


# --- what does not fit --------------------------------------------------------------------------


def mismatch(diff: str, before: bytes = OLD) -> PatchMismatchError:
    with pytest.raises(PatchMismatchError) as caught:
        patched(diff, before)
    return caught.value


def test_a_hunk_that_does_not_fit_is_told_with_both_lines() -> None:
    error = mismatch(DIFF, OLD.replace(b"three", b"tree"))

    assert str(error) == (
        "x.diff:5: the diff does not fit /lib/x.py\n"
        "  expected: line 3: 'three\\n'\n"
        "  found:    line 3: 'tree\\n'\n"
        "  remedy:   make the diff again from the image's own file, or use a base whose version "
        "fits it"
    )


def test_no_line_is_looked_for_elsewhere_but_it_is_told_where_it_stands() -> None:
    error = mismatch(DIFF, b"zero\n" + OLD)

    assert error.messages[0].found == "line 2: 'one\\n'"
    assert "these lines stand at line 3: " in error.messages[0].remedy


def test_a_change_that_is_there_already_is_told() -> None:
    assert (
        "has this change already" in mismatch(DIFF, OLD.replace(b"three", b"3")).messages[0].remedy
    )


def test_line_ends_that_differ_are_told() -> None:
    error = mismatch(DIFF, OLD.replace(b"\n", b"\r\n"))
    assert error.messages[0].remedy.startswith("only the line ends differ")
    error = mismatch(DIFF, b"one\ntwo\nthree\nfour")
    assert error.messages[0].remedy.startswith("only the line ends differ")


@pytest.mark.parametrize("before", [b"", b"one\n", b"one\ntwo\n"])
def test_a_file_that_is_too_short_is_told(before: bytes) -> None:
    error = mismatch(DIFF, before)
    assert error.messages[0].found == f"the end of the file, after {before.count(10)} lines"


def test_a_place_behind_the_end_is_told_also_without_context() -> None:
    error = mismatch(f"{HEAD}@@ -9,0 +10 @@\n+x\n")
    assert error.messages[0].found == "the end of the file, after 6 lines"


@pytest.mark.parametrize(
    ("diff", "before"),
    [
        ("@@ -1,0 +2 @@\n+b\n", b"a"),
        ("@@ -1 +1,2 @@\n-a\n+a\n\\ No newline at end of file\n+b\n", b"a\n"),
        ("@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", b"a\nc\n"),
    ],
)
def test_lines_are_never_joined(diff: str, before: bytes) -> None:
    with pytest.raises(PatchEndError):
        patched(HEAD + diff, before)


# --- what is no diff for us ---------------------------------------------------------------------

GIT = "diff --git a/x b/x\n"
REFUSED: dict[str, tuple[str, type[BuildError]]] = {
    "nothing": ("", DiffEmptyError),
    "prose": ("Please change three to 3.\n", DiffEmptyError),
    "a context diff": (
        "*** x\n--- x\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n",
        DiffEmptyError,
    ),
    "a hunk alone": ("@@ -1 +1 @@\n-a\n+b\n", DiffUnreadableError),
    "a hunk that is cut": (DIFF[: DIFF.index("+3")], DiffUnreadableError),
    "a hunk of more lines": (DIFF + "+more\n", DiffUnreadableError),
    "a hunk of more context": (DIFF + " five\n", DiffUnreadableError),
    "an unknown sign": (DIFF.replace("+3", "!3"), DiffUnreadableError),
    "hunks out of order": (
        f"{HEAD}@@ -5 +5 @@\n-five\n+5\n@@ -1 +1 @@\n-one\n+1\n",
        DiffUnreadableError,
    ),
    "hunks that overlap": (
        f"{HEAD}@@ -1,2 +1,2 @@\n-one\n+1\n two\n@@ -2 +2 @@\n-two\n+2\n",
        DiffUnreadableError,
    ),
    "CR LF": (DIFF.replace("\n", "\r\n"), DiffUnreadableError),
    "no target": ("--- a/x\n@@ -1 +1 @@\n-a\n+b\n", DiffUnreadableError),
    "no files": ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", DiffUnreadableError),
    "a binary file": (f"{GIT}index 1..2\nBinary files a/x and b/x differ\n", DiffBinaryError),
    "a binary patch": (f"{GIT}index 1..2\nGIT binary patch\nliteral 1\n\n", DiffBinaryError),
    "a link": (
        f"{GIT}new file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n",
        DiffNotRegularError,
    ),
    "a submodule": (
        f"{GIT}index 1..2 160000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
        DiffNotRegularError,
    ),
    "a rename": (
        "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
        DiffRenamesError,
    ),
    "a copy": (
        "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n",
        DiffRenamesError,
    ),
    "two names": (DIFF.replace("b/x.py", "b/y.py"), DiffRenamesError),
    "one file twice": (DIFF + DIFF, DiffRepeatsError),
    "a way out": (DIFF.replace("x.py", "../x.py"), DiffPathError),
    "a way out, quoted": (
        DIFF.replace("a/x.py", '"a/\\056./x"').replace("b/x.py", '"b/\\056./x"'),
        DiffPathError,
    ),
    "no name": ("--- \n+++ \n@@ -1 +1 @@\n-a\n+b\n", DiffUnreadableError),
    "an absolute name": (DIFF.replace("a/x.py", "/x").replace("b/x.py", "/x"), DiffPathError),
    "a name with an escape": (
        DIFF.replace("a/x.py", '"a/\\033x"').replace("b/x.py", '"b/\\033x"'),
        DiffPathError,
    ),
    "a name that is no text": (
        DIFF.replace("a/x.py", '"a/\\377"').replace("b/x.py", '"b/\\377"'),
        DiffPathError,
    ),
}


@pytest.mark.parametrize(("diff", "error"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_diff_of_text_files_is_refused(diff: str, error: type[BuildError]) -> None:
    with pytest.raises(error) as caught:
        paths_in(parse_diff(diff.encode("latin-1"), place="x.diff"), place="x.diff")

    (message,) = caught.value.messages
    assert message.place.startswith("x.diff")
    assert message.remedy
    assert message.text().isprintable() or "\n" in message.text()


def test_a_part_that_changes_nothing_is_refused() -> None:
    with pytest.raises(PatchNothingError):
        patched("diff --git a/x b/x\nindex 1..2 100644\n")


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "strip", "path"),
    [
        ("a/vllm/x.py", "b/vllm/x.py", None, "vllm/x.py"),
        ("i/vllm/x.py", "w/vllm/x.py", None, "vllm/x.py"),
        ("vllm/x.py", "vllm/x.py", None, "vllm/x.py"),
        ("a/x.py", "a/x.py", None, "a/x.py"),
        ("/dev/null", "b/vllm/x.py", None, "vllm/x.py"),
        ("a/vllm/x.py", "/dev/null", None, "vllm/x.py"),
        ("/dev/null", "vllm/x.py", None, "vllm/x.py"),
        ("a/vllm/x.py", "b/vllm/x.py", 2, "x.py"),
        ("a/x.py", "a/x.py", 0, "a/x.py"),
        ("old/python/vllm/x.py", "new/python/vllm/x.py", 2, "vllm/x.py"),
        ('"a/\\303\\244 \\"b\\".py"', '"b/\\303\\244 \\"b\\".py"', None, 'ä "b".py'),
        ("a/a b.py\t", "b/a b.py\t", None, "a b.py"),
        ("a/x.py\t2026-01-01 00:00:00", "b/x.py\t2026-01-02 00:00:00", None, "x.py"),
    ],
)
def test_names_are_stripped_as_git_writes_them(
    old: str, new: str, strip: int | None, path: str
) -> None:
    sign = "-" if old != "/dev/null" else "+"
    numbers = {"+": "-0,0 +1", "-": "-1 +0,0"}[sign]
    text = f"--- {old}\n+++ {new}\n@@ {numbers} @@\n{sign}a\n"

    assert list(paths_in(parse_diff(text.encode(), place="d"), place="d", strip=strip)) == [path]


def test_one_unusual_name_keeps_all_of_them_as_they_are() -> None:
    text = DIFF + DIFF.replace("a/x.py", "c.py").replace("b/x.py", "c.py")
    files = parse_diff(text.encode(), place="d")

    with pytest.raises(DiffRenamesError):
        paths_in(files, place="d")


def test_a_mail_of_git_format_patch_is_a_diff() -> None:
    mail = (
        "From 0123 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n - a list\n+1\n---\n"
        f" x.py | 2 +-\n 1 file changed\n\ndiff --git a/x.py b/x.py\nindex 1..2 100644\n{DIFF}"
        "-- \n2.40\n\n"
    )
    assert patched(mail) == OLD.replace(b"three", b"3")


# --- git as the other side ----------------------------------------------------------------------

PAIRS: dict[str, tuple[bytes | None, bytes | None]] = {
    "changed.py": (OLD, OLD.replace(b"two", b"2\n2").replace(b"six\n", b"")),
    "new.py": (None, b"a\nb"),
    "gone.py": (b"a\n\n", None),
    "dos.txt": (b"a\r\nb\r\nc", b"a\r\nB\r\nc\r\n"),
    "f\xe4 r.txt": (b"x" * 200 + b"\ny\n", b"x" * 199 + b"\ny"),
    "sub/empty.py": (None, b""),
    "long.py": (
        b"".join(b"%d\n" % n for n in range(99)),
        b"".join(b"%d\n" % n for n in range(3, 120)),
    ),
}


@pytest.mark.parametrize("context", [0, 1, 3, 50])
def test_what_git_diffs_is_made_again_to_the_byte(tmp_path: Path, context: int) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for side in (0, 1):
        for name, contents in PAIRS.items():
            data = contents[side]
            path = tmp_path / "ab"[side] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if data is not None:
                path.write_bytes(data)
    ran = subprocess.run(
        ["git", "diff", "--no-index", "--no-renames", f"-U{context}", "a", "b"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(tmp_path)},
    )
    made = paths_in(parse_diff(ran.stdout, place="d"), place="d", strip=2)

    assert set(made) == set(PAIRS)
    for name, (before, after) in PAIRS.items():
        assert apply_patch(made[name], before, place="d", target=name) == after


HUNK = "@@ -1 +1 @@\n-a\n+z\n"


@pytest.mark.parametrize(
    "rest",
    [
        "@@ -3 +3 @\n-c\n+d\n",
        "@@ -3 +3\n-c\n+d\n",
        "@@ -3,x +3 @@\n-c\n+d\n",
        "@ -3 +3 @@\n-c\n+d\n",
        "@@@ -3 -3 +3 @@@\n--c\n++d\n",
        "\n-c\n+d\n",
        "# c\n-c\n+d\n",
        "--- a/y\n+++b/y\n",
        f"diff --git a/y b/y\n@@ -9 +9\n-c\n+d\n--- a/y\n+++ b/y\n{HUNK}",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_no_part_of_a_diff_is_passed_over(rest: str, *, first: bool) -> None:
    parts = [rest, HUNK] if first and rest[0] == "@" else [HUNK, rest]
    with pytest.raises(DiffUnreadableError):
        parse_diff("".join(["--- a/x\n+++ b/x\n", *parts]).encode(), place="d")


@pytest.mark.parametrize(
    "between", ["", "\n", "Index: y\n====\n", "-- \n2.39.5\n\nFrom abc\n- it\n"]
)
def test_what_stands_between_the_parts_of_a_diff_is_no_matter(between: str) -> None:
    text = f"- a list\n@@ x\n--- a/x\n+++ b/x\n{HUNK}{between}--- a/y\n+++ b/y\n{HUNK}-- \n2.39.5\n"
    assert len(parse_diff(text.encode(), place="d")) == 2
