"""The lock's text: one spelling, and what is said of any other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.errors import LockError
from builder.lockfile import lock_digest, lock_text, parse_lock

if TYPE_CHECKING:
    from builder.lock import Lock

RESTORE = "  remedy:   git restore lockfile.json, or make it again: inv lock"


def said_of(text: bytes) -> str:
    with pytest.raises(LockError) as caught:
        parse_lock(text, place="lockfile.json")
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_the_sample_is_canonical_to_the_byte(text: bytes, lock: Lock) -> None:
    assert lock_text(lock) == text


def test_the_text_is_ascii_and_ends_with_one_newline(text: bytes) -> None:
    assert text.isascii()
    assert text.endswith(b"}\n")
    assert b"Caf\\u00e9" in text


def test_an_object_without_objects_is_one_line_of_its_list(text: bytes) -> None:
    lines = text.decode().splitlines()
    assert '          {"key": "Tiny", "value": ["tiny", "Tiny"], "state": "added"}' in lines
    assert '        "table": "_MODELS",' in lines
    assert '      "/b/__pycache__/registry.cpython-312.pyc",' in lines


def test_the_digest_is_of_the_bytes(text: bytes) -> None:
    assert lock_digest(parse_lock(text, place="lockfile.json")) == digest_bytes(text)


@pytest.mark.parametrize(
    ("old", "new", "line", "expected", "found"),
    [
        (b'"pair"', b' "pair"', 7, """'  "name": "pair",'""", """'  "name":  "pair",'"""),
        (b'  "name": "pair"', b'\n  "name": "pair"', 7, """'  "name": "pair",'""", "''"),
        (b"\n  }\n}\n", b"\n  }\n}", 139, "''", "the end of the file"),
        (b"\n  }\n}\n", b"\n  }\n}\n\n", 140, "the end of the file", "''"),
        (b'"config": 1\n', b'"config": 1\r\n', 5, """'    "config": 1'""", r"1\r'"),
        (b"Caf\\u00e9", "Café".encode(), 53, r"Caf\\u00e9", r"Caf\xe9"),
    ],
)
def test_a_text_that_inv_lock_did_not_write_is_refused_with_its_first_line(  # noqa: PLR0913, PLR0917
    text: bytes, old: bytes, new: bytes, line: int, expected: str, found: str
) -> None:
    assert old in text
    what, said_expected, said_found, remedy = said_of(text.replace(old, new, 1)).splitlines()
    assert what == f"lockfile.json:{line}: the lock was edited, or its line ends were changed"
    assert said_expected.startswith("  expected: ")
    assert expected in said_expected
    assert said_found.startswith("  found:    ")
    assert found in said_found
    assert remedy == RESTORE


def test_keys_in_another_order_are_refused(text: bytes) -> None:
    document = json.loads(text)
    swapped = dict(reversed(document.items()))
    assert "lockfile.json:" in said_of(json.dumps(swapped, indent=2).encode())


@pytest.mark.parametrize("mark", ["<<<<<<< HEAD", "=======", ">>>>>>> branch", "||||||| base"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_merge_that_is_not_finished(text: bytes, mark: str, end: str) -> None:
    changed = text.replace(b'  "name"', f'{mark}{end}  "name"'.encode())
    assert said_of(changed) == (
        "lockfile.json:7: the lock holds an unfinished merge\n"
        "  expected: the lock of one manifest\n"
        "  found:    conflict markers\n"
        "  remedy:   merge the manifest; then git checkout --ours lockfile.json, and inv lock"
    )


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        (b"", 1, "Expecting value"),
        (b'{\n  "a": 1\n  "b": 2\n}\n', 3, "Expecting ',' delimiter"),
        (b'{\n  "a": "\xff"\n}\n', 2, "byte 0xff at offset 10 is not UTF-8"),
        (b'{"a": "\\ud800"}', 1, "half of a surrogate pair in a text"),
        (b"[" * 100_000, 1, "lists or objects are nested more than 64 deep"),
        (b"[" * 65 + b"]" * 65, 1, "lists or objects are nested more than 64 deep"),
        (b"9" * 5000, 1, "a whole number of more than 64 bits"),
        (b'{"a": [{"key": 1, "key": 2}]}', 1, "the key 'key' twice in one object"),
        (b'{"a": NaN}', 1, "NaN is no JSON"),
        (b"\xef\xbb\xbf{}", 1, "a byte order mark at its start"),
    ],
)
def test_what_is_not_json(text: bytes, line: int, found: str) -> None:
    assert said_of(text) == (
        f"lockfile.json:{line}: the lock is not JSON\n"
        "  expected: the text that inv lock writes\n"
        f"  found:    {found}\n{RESTORE}"
    )


def test_a_newer_version_is_refused_before_anything_else_is_looked_at() -> None:
    assert said_of(b'{"lock_version": 2, "all": "else"}') == (
        "lockfile.json: lock_version: a newer sparklock wrote this lock\n"
        "  expected: 1\n"
        "  found:    2\n"
        "  remedy:   update sparklock"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"[]", "nothing"),
        (b"{}", "nothing"),
        (b'{"lock_version": 0}', "0"),
        (b'{"lock_version": true}', "true"),
        (b'{"lock_version": 1.0}', "1.0"),
        (b'{"lock_version": "1"}', '"1"'),
    ],
)
def test_json_that_is_no_lock(text: bytes, found: str) -> None:
    assert said_of(text) == (
        "lockfile.json: lock_version: this is no lock\n"
        f"  expected: 1\n  found:    {found}\n{RESTORE}"
    )


def test_every_value_that_is_wrong_is_told(text: bytes) -> None:
    changed = text.replace(b"0" * 64, b"0").replace(b'"uid": 0', b'"uid": "0"')
    changed = changed.replace(b'"workdir": "/opt"', b'"workdr": "/opt"')
    first, second, third = said_of(changed).split("\n\n")
    assert first == (
        "lockfile.json: cluster_digest: wrong value\n"
        "  expected: a digest: sha256: and 64 lower-case hex digits\n"
        f'  found:    "sha256:0"\n{RESTORE}'
    )
    assert second == (
        "lockfile.json: image.base.dirs[0].uid: wrong value\n"
        f'  expected: a whole number\n  found:    "0"\n{RESTORE}'
    )
    assert third == (
        "lockfile.json: image.workdr: unknown key\n"
        "  expected: one of accepted, base, changes, donors, entrypoint, epoch, files, patches, "
        "picks, platform, plugins, tables, vllm_version, whiteouts, workdir\n"
        f'  found:    "workdr"\n{RESTORE}'
    )
