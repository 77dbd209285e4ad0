"""Where our files go in a base."""

from __future__ import annotations

import pytest

from builder.oci.image_errors import ParentIsFileError, TargetIsDirectoryError, TargetLoopError
from builder.oci.placement import parent_dirs, resolve_destination, stale_pyc
from builder.oci.tar import TarEntry, TarKind, file_entry, ordered, write_tar
from builder.oci.whiteout import stack
from tests.unit.oci.archives import directory, file, listing, special, symlink

EPOCH = 1767225600
TREE = stack(
    [
        listing(
            directory("usr"),
            directory("usr/lib"),
            symlink("lib", "usr/lib"),
            symlink("opt", "/usr"),
            file("usr/lib/m.py"),
            symlink("usr/lib/link.py", "m.py"),
            directory("usr/lib/__pycache__"),
            file("usr/lib/__pycache__/m.cpython-312.pyc"),
            file("usr/lib/__pycache__/m.cpython-312.opt-1.pyc"),
            file("usr/lib/__pycache__/mm.cpython-312.pyc"),
            file("usr/lib/__pycache__/m.cpython-312.py"),
            symlink("loop", "loop"),
            special("usr/dev", b"3"),
        )
    ]
)


def test_every_directory_above_is_emitted_with_the_bases_attributes() -> None:
    info, _ = directory("var")
    info.mode, info.uid, info.gid, info.mtime = 0o1777, 5, 6, 77
    tree = stack([listing((info, b""))])

    assert parent_dirs(tree, ["var/new/x", "var/y", "z"], epoch=EPOCH) == (
        TarEntry("var", TarKind.DIRECTORY, 0o1777, 77, uid=5, gid=6),
        TarEntry("var/new", TarKind.DIRECTORY, 0o755, EPOCH),
    )


def test_parents_make_a_layer_that_the_writer_accepts() -> None:
    targets = ["usr/lib/x/y.py", "usr/lib/__pycache__/m.cpython-312.pyc", "top"]
    files = [file_entry(path, b"", mode=0o644, mtime=EPOCH) for path in targets]

    entries = ordered([*parent_dirs(TREE, targets, epoch=EPOCH), *files])

    assert len(b"".join(write_tar(entries))) > 0
    assert len(entries) == 7


def test_a_parent_that_is_no_directory_is_refused() -> None:
    with pytest.raises(ParentIsFileError):
        parent_dirs(TREE, ["lib/x"], epoch=EPOCH)


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("/lib/m.py", "usr/lib/m.py"),
        ("lib/new/x", "usr/lib/new/x"),
        ("/opt/lib/x", "usr/lib/x"),
        ("/usr/lib/link.py", "usr/lib/link.py"),
        ("/new/deep/x", "new/deep/x"),
    ],
)
def test_destinations_go_through_the_bases_symlinks_but_replace_one_at_the_end(
    path: str, resolved: str
) -> None:
    assert resolve_destination(TREE, path) == resolved


@pytest.mark.parametrize("path", ["/usr/lib", "/lib", "/opt/lib", "/"])
def test_a_destination_that_is_a_directory_is_refused(path: str) -> None:
    with pytest.raises(TargetIsDirectoryError):
        resolve_destination(TREE, path)


@pytest.mark.parametrize("path", ["/lib/m.py/x", "/usr/dev/x/y", "/usr/lib/link.py/x"])
def test_a_destination_below_no_directory_is_refused(path: str) -> None:
    with pytest.raises(ParentIsFileError) as caught:
        resolve_destination(TREE, path)
    assert "is a" in caught.value.reason


def test_a_destination_behind_a_loop_is_refused() -> None:
    with pytest.raises(TargetLoopError):
        resolve_destination(TREE, "/loop/x")


def test_compiled_files_of_a_replaced_module_are_stale_and_others_are_not() -> None:
    assert stale_pyc(TREE, ["usr/lib/m.py", "usr/lib/absent.py", "usr/lib/mm.txt"]) == (
        "usr/lib/__pycache__/m.cpython-312.opt-1.pyc",
        "usr/lib/__pycache__/m.cpython-312.pyc",
    )


def test_compiled_files_at_the_root_are_found() -> None:
    tree = stack([listing(file("__pycache__/m.cpython-312.pyc"))])

    assert stale_pyc(tree, ["m.py"]) == ("__pycache__/m.cpython-312.pyc",)
