from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes
from builder.oci.errors import DanglingHardLinkError
from builder.oci.tree import Kind
from builder.oci.whiteout import read_tree, stack
from tests.fakes import MemoryBlobs
from tests.unit.oci.archives import (
    Published,
    directory,
    file,
    hard_link,
    listing,
    special,
    symlink,
    tar_of,
)

if TYPE_CHECKING:
    import tarfile

    from builder.oci.model import Layer

LOWER = listing(directory("d"), file("d/a", b"1"), directory("d/e"), file("d/e/b", b"2"))


def test_a_whiteout_hides_a_file_below() -> None:
    assert sorted(stack([LOWER, listing(file("d/.wh.a"))]).entries) == ["d", "d/e", "d/e/b"]


def test_a_whiteout_hides_a_directory_and_all_in_it() -> None:
    assert sorted(stack([LOWER, listing(file("d/.wh.e"))]).entries) == ["d", "d/a"]


def test_a_whiteout_hides_nothing_of_its_own_layer_in_either_order() -> None:
    before = listing(file("d/.wh.a"), file("d/a", b"new"))
    after = listing(file("d/a", b"new"), file("d/.wh.a"))

    for upper in (before, after):
        entry = stack([LOWER, upper]).get("d/a")
        assert entry is not None
        assert entry.size_bytes == 3


def test_a_marker_in_the_only_layer_hides_nothing() -> None:
    tree = stack([listing(directory("d"), file("d/a"), file("d/.wh.a"), file("d/.wh..wh..opq"))])

    assert sorted(tree.entries) == ["d", "d/a"]


def test_a_whiteout_of_what_is_not_there_does_nothing() -> None:
    assert stack([LOWER, listing(file("no/.wh.x"), file(".wh.y"))]) == stack([LOWER])


def test_an_opaque_directory_hides_its_lower_children_and_not_itself() -> None:
    upper = listing(file("d/new"), file("d/.wh..wh..opq"))

    assert sorted(stack([LOWER, upper]).entries) == ["d", "d/new"]


def test_an_opaque_marker_in_a_higher_layer_hides_all_layers_below() -> None:
    tree = stack([LOWER, listing(file("d/c")), listing(file("d/.wh..wh..opq"))])

    assert sorted(tree.entries) == ["d"]


def test_an_opaque_root_hides_everything_below() -> None:
    assert sorted(stack([LOWER, listing(file(".wh..wh..opq"), file("x"))]).entries) == ["x"]


def test_a_hidden_path_can_come_back_higher_up() -> None:
    tree = stack([LOWER, listing(file(".wh.d")), listing(directory("d"), file("d/new"))])

    assert sorted(tree.entries) == ["d", "d/new"]


@pytest.mark.parametrize("upper", [file("d"), symlink("d", "e"), special("d", b"6")])
def test_what_replaces_a_directory_removes_its_children(
    upper: tuple[tarfile.TarInfo, bytes],
) -> None:
    tree = stack([LOWER, listing(upper)])

    assert list(tree.entries) == ["d"]


def test_a_directory_over_a_directory_changes_its_attributes_only() -> None:
    info, _ = directory("d")
    info.mode = 0o1777
    tree = stack([LOWER, listing((info, b""))])

    assert sorted(tree.entries) == ["d", "d/a", "d/e", "d/e/b"]
    assert tree.entries["d"].mode == 0o1777


def test_a_directory_replaces_a_file() -> None:
    tree = stack([LOWER, listing(directory("d/a"), file("d/a/x"))])

    assert tree.entries["d/a"].kind is Kind.DIRECTORY
    assert "d/a/x" in tree.entries


def test_a_directory_that_no_layer_states_is_implied() -> None:
    tree = stack([listing(file("x/y/z"))])

    assert [(path, entry.kind, entry.mode) for path, entry in tree.entries.items()][:2] == [
        ("x", Kind.DIRECTORY, 0o755),
        ("x/y", Kind.DIRECTORY, 0o755),
    ]


def test_a_directory_that_a_layer_leaves_out_keeps_its_lower_attributes() -> None:
    info, _ = directory("tmp")
    info.mode = 0o1777
    tree = stack([listing((info, b"")), listing(file("tmp/x"))])

    assert tree.entries["tmp"].mode == 0o1777


def test_a_path_below_a_symlink_replaces_the_symlink_and_does_not_follow_it() -> None:
    base = listing(directory("usr"), directory("usr/lib"), symlink("lib", "usr/lib"))
    tree = stack([base, listing(file("lib/b.so"))])

    assert sorted(tree.entries) == ["lib", "lib/b.so", "usr", "usr/lib"]
    assert tree.entries["lib"].kind is Kind.DIRECTORY


def test_a_whiteout_below_a_symlink_is_not_followed() -> None:
    base = listing(directory("usr"), file("usr/x"), symlink("u", "usr"))

    assert "usr/x" in stack([base, listing(file("u/.wh.x"))]).entries


def test_the_roots_own_attributes_are_kept() -> None:
    tree = stack([listing(directory("./"), file("./a")), listing(file("b"))])

    assert list(tree.entries) == ["", "a", "b"]


def test_a_hard_link_takes_the_file_of_the_layers_below_even_if_its_layer_hides_it() -> None:
    upper = listing(file("d/.wh.a"), hard_link("copy", "d/a"))
    tree = stack([LOWER, upper])

    assert tree.entries["copy"].size_bytes == 1
    assert tree.entries["copy"].layer == LOWER.layer.descriptor.digest
    assert "d/a" not in tree.entries


@pytest.mark.parametrize("target", ["nowhere", "d", "d/e/b/c"])
def test_a_hard_link_to_no_file_is_an_error(target: str) -> None:
    with pytest.raises(DanglingHardLinkError) as caught:
        stack([LOWER, listing(hard_link("copy", target))])

    assert (caught.value.path, caught.value.target) == ("copy", target)
    assert "remedy:" in str(caught.value)


def test_the_tree_is_sorted_whatever_the_order_of_the_archive() -> None:
    tree = stack([listing(file("b"), file("a/c"), file("a.b"))])

    assert list(tree.entries) == ["a", "a.b", "a/c", "b"]


def test_an_image_is_read_layer_by_layer_with_the_wanted_bytes() -> None:
    published = Published()
    image = published.image(
        tar_of(file("a", b"old"), file("gone", b"x")), tar_of(file("a", b"new"), file(".wh.gone"))
    )
    seen: list[Layer] = []

    tree = read_tree(
        published.source,
        image.layers,
        keep=lambda path: path == "a",
        blobs=MemoryBlobs(),
        seen=seen.append,
    )

    assert tree.entries["a"].content == digest_bytes(b"new")
    assert list(tree.entries) == ["a"]
    assert seen == list(image.layers)


def test_bytes_of_a_kept_hard_link_come_from_the_layer_that_has_them() -> None:
    published = Published()
    image = published.image(
        tar_of(file("z")),
        tar_of(file("a", b"data")),
        tar_of(hard_link("b", "a")),
        tar_of(hard_link("c", "b")),
    )
    blobs = MemoryBlobs()

    tree = read_tree(published.source, image.layers, keep=lambda path: path == "c", blobs=blobs)

    content = tree.entries["c"].content
    assert content is not None
    assert blobs.read(content) == b"data"
    opened = [published.source.opened[layer.descriptor.digest] for layer in image.layers]
    assert opened == [1, 2, 1, 1]
