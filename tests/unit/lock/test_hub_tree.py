from __future__ import annotations

import json
from typing import Any

import pytest

from builder.digest import git_sha1
from builder.hub_tree import MOST_FILES, HubFile, TreeError, chosen, path_problem, read_page

LFS = {"oid": "a" * 64, "size": 5_000_000_000, "pointerSize": 135}


def entry(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {"type": "file", "path": "a", "size": 3, "oid": "b" * 40, **values}


def files(*paths: str) -> tuple[HubFile, ...]:
    return read_page(json.dumps([entry(path=path) for path in paths]).encode())


def test_a_page_has_its_files_and_no_folders() -> None:
    page = [entry(), entry(path="w/x", lfs=LFS), {"type": "directory", "path": "w", "oid": "c"}]
    assert read_page(json.dumps(page).encode()) == (
        HubFile("a", 3, None, "b" * 40),
        HubFile("w/x", 5_000_000_000, f"sha256:{'a' * 64}", "b" * 40),  # type: ignore[arg-type] # a Digest
    )


@pytest.mark.parametrize(
    "page",
    [
        *(b"<html>", b"{}", b"[1]", b'[{"type": "file"}]', b"[" * 100_000, b"\xff"),
        *(
            json.dumps([item]).encode()
            for item in (
                *(entry(size=-1), entry(size="3"), entry(size=True), entry(size=2**60)),
                *(entry(path=1), entry(oid="B" * 40), entry(oid=None), entry(lfs=1)),
                *(entry(lfs={**LFS, "oid": "a" * 63}), entry(lfs={"oid": "a" * 64})),
            )
        ),
    ],
)
def test_what_is_no_listing_is_refused(page: bytes) -> None:
    with pytest.raises(TreeError):
        read_page(page)


def test_patterns_choose_whole_paths() -> None:
    found = files("README.md", ".gitattributes", "b.gguf", "a.safetensors", "original/a.pth", "x/y")

    def names(*patterns: tuple[str, ...]) -> list[str]:
        return [file.path for file in chosen(found, *patterns)]

    assert names((), ()) == ["a.safetensors", "b.gguf", "original/a.pth", "x/y"]
    assert names((), ("*.gguf", "original/*")) == ["a.safetensors", "x/y"]
    assert names(("*.safetensors", "README.md"), ()) == ["README.md", "a.safetensors"]
    assert names(("*",), ("x/*",))[0] == ".gitattributes"
    assert names(("y",), ()) == []
    assert names(("x/",), ()) == ["x/y"]
    assert names(("x/*", "b.gguf"), ("x/",)) == ["b.gguf"]


@pytest.mark.parametrize(
    "paths",
    [
        *((name,) for name in ("", "/a", "../a", "a/../b", "a//b", "a/", ".", "a/.", "a\0b")),
        *((name,) for name in ("a\nb", "\x1b[2J", "x" * 256, "a/" * 600 + "a", "\ud800")),
        *((name,) for name in (".sparklock/seen", ".SPARKLOCK/in/x", ".cache/huggingface/x")),
        *(("a", "a"), ("Config.json", "config.json"), ("a", "a/b"), ("a", "A/b", "a-b")),
    ],
)
def test_names_that_are_no_safe_files_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(TreeError) as caught:
        chosen(files(*paths), (), ())
    assert str(caught.value).isprintable()


def test_what_is_left_out_may_have_any_name() -> None:
    assert len(chosen(files("ok", "../a", "A", "a"), (), ("../*", "A"))) == 2


def test_names_of_any_language_and_with_spaces_are_safe() -> None:
    assert [path_problem(name) for name in ("模型/weights 1.bin", "ö", "a.b/..c", "…")] == [""] * 4


def test_there_is_a_limit_of_files() -> None:
    many = files(*map(str, range(MOST_FILES + 1)))
    with pytest.raises(TreeError, match="too many"):
        chosen(many, (), ())
    assert len(chosen(many[1:], (), ())) == MOST_FILES


def test_git_names_a_file_as_git_does() -> None:
    assert git_sha1(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert git_sha1(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
