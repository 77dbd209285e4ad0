from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from builder.oci.compare import EntryDifference, first_difference
from tests.fakes import pieces
from tests.unit.oci.archives import directory, file, hard_link, symlink, tar_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Member = tuple[tarfile.TarInfo, bytes]

LONG = b"x" * 200_000


def members() -> list[Member]:
    return [directory("d"), file("d/a", LONG), symlink("d/l", "a"), file("e", b"e")]


def between(change: Callable[[list[Member]], object]) -> EntryDifference | None:
    changed = members()
    change(changed)
    return first_difference(pieces(tar_of(*members())), pieces(tar_of(*changed)))


def setting(index: int, field: str, value: int | str) -> Callable[[list[Member]], object]:
    return lambda items: setattr(items[index][0], field, value)


CHANGES: dict[str, tuple[Callable[[list[Member]], object], tuple[str, str, str, str]]] = {
    "mode": (setting(1, "mode", 0o600), ("d/a", "mode", "0644", "0600")),
    "mtime": (setting(1, "mtime", 7), ("d/a", "mtime", "1000", "7")),
    "owner": (setting(3, "uid", 1000), ("e", "uid", "0", "1000")),
    "group": (setting(0, "gid", 5), ("d/", "gid", "0", "5")),
    "link": (setting(2, "linkname", "e"), ("d/l", "linkname", "a", "e")),
    "type": (
        lambda items: items.__setitem__(2, hard_link("d/l", "d/a")),
        ("d/l", "type", "symlink", "hard link"),
    ),
    "size": (
        lambda items: items.__setitem__(3, file("e", b"ee")),
        ("e", "size", "1 bytes", "2 bytes"),
    ),
    "content": (
        lambda items: items.__setitem__(1, file("d/a", LONG[:150_000] + b"y" + LONG[150_001:])),
        ("d/a", "content at byte 150000", "0x78", "0x79"),
    ),
    "one less": (lambda items: items.pop(2), ("d/l", "path", "d/l", "e")),
    "none at the end": (lambda items: items.pop(), ("e", "path", "e", "no such entry")),
    "one more": (lambda items: items.append(file("f")), ("f", "path", "no such entry", "f")),
    "another order": (lambda items: items.reverse(), ("d/", "path", "d/", "e")),
}


@pytest.mark.parametrize(("change", "found"), CHANGES.values(), ids=CHANGES)
def test_the_first_difference_is_named_with_both_values(
    change: Callable[[list[Member]], object], found: tuple[str, str, str, str]
) -> None:
    assert between(change) == EntryDifference(*found)


def test_of_two_differences_the_first_in_the_layer_is_told() -> None:
    def change(items: list[Member]) -> None:
        items[3][0].mode = 0o600
        items[1][0].mtime = 7

    assert between(change) == EntryDifference("d/a", "mtime", "1000", "7")


def test_equal_layers_have_none() -> None:
    assert between(lambda _: None) is None


def test_another_spelling_of_the_same_entries_is_none() -> None:
    one, two = (
        tar_of(*members(), format=kind) for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)
    )
    assert one != two
    assert first_difference(pieces(one), pieces(two)) is None


def test_a_layer_that_cannot_be_read_is_told_as_such() -> None:
    data = tar_of(*members())
    found = first_difference(pieces(data), pieces(data[:100_000]))
    assert found == EntryDifference(
        "d/a", "archive", "one that can be read", "the archive ends too early"
    )
