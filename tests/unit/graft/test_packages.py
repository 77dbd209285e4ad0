from __future__ import annotations

import pytest

from builder.graft.errors import DistInfoError, PackageAmbiguousError, PackageNotFoundError
from builder.graft.packages import PackageRoot, find_package, installed_version, keep_for
from tests.unit.graft.images import SITE, MemoryImage, python_image

VENV = "opt/venv/lib/python3.12/site-packages"


@pytest.mark.parametrize("site", [SITE, VENV, "site-packages"])
def test_a_package_is_found_in_any_site_folder(site: str) -> None:
    image = python_image({}, site=site)

    assert find_package(image.tree, "vllm", image="base") == PackageRoot("vllm", f"{site}/vllm")


def test_only_the_package_itself_counts_and_not_a_namesake_inside_another() -> None:
    image = python_image({})
    image.file(f"{SITE}/other/vllm/__init__.py").file("src/vllm/__init__.py")

    assert find_package(image.tree, "vllm", image="base").site == SITE


def test_two_installations_are_refused_and_both_are_named() -> None:
    image = python_image({}).file(f"{VENV}/vllm/__init__.py")

    with pytest.raises(PackageAmbiguousError) as caught:
        find_package(image.tree, "vllm", image="donor tiny")

    assert caught.value.paths == (f"{VENV}/vllm", f"{SITE}/vllm")
    assert str(caught.value).startswith("donor tiny: the package vllm is installed 2 times")


def test_an_absent_package_is_refused_with_the_folders_that_were_searched() -> None:
    image = MemoryImage({f"{SITE}/torch/__init__.py": ""})

    with pytest.raises(PackageNotFoundError) as caught:
        find_package(image.tree, "vllm", image="base")

    assert caught.value.sites == (SITE,)
    assert f"none, in {SITE}" in str(caught.value)


def test_a_linked_package_is_told_from_an_absent_one() -> None:
    image = MemoryImage({"src/vllm/__init__.py": ""}).link(f"{SITE}/vllm", "/src/vllm")

    with pytest.raises(PackageNotFoundError) as caught:
        find_package(image.tree, "vllm", image="base")

    assert caught.value.links == {f"{SITE}/vllm": "/src/vllm"}


def test_the_version_is_that_of_the_metadata_header() -> None:
    image = python_image({}, version="0.17.1+standin")
    image.file(f"{SITE}/vllm_plugin-1.0.dist-info/METADATA", "Version: 1.0\n")
    image.file(f"{VENV}/vllm-0.14.0.dist-info/METADATA", "Version: 0.14.0\n")
    root = find_package(image.tree, "vllm", image="base")

    assert installed_version(image.tree, image.read, root, image="base") == "0.17.1+standin"


def test_names_of_distributions_are_compared_as_pip_does() -> None:
    image = MemoryImage({f"{SITE}/my_pack/__init__.py": ""})
    image.file(f"{SITE}/My.Pack-2.0.dist-info/METADATA", "Version: 2.0\n")
    root = find_package(image.tree, "my_pack", image="base")

    assert installed_version(image.tree, image.read, root, image="base") == "2.0"


def test_two_versions_at_once_are_refused() -> None:
    image = python_image({}).file(f"{SITE}/vllm-0.9.dist-info/METADATA", "Version: 0.9\n")
    root = find_package(image.tree, "vllm", image="base")

    with pytest.raises(DistInfoError) as caught:
        installed_version(image.tree, image.read, root, image="base")

    assert len(caught.value.paths) == 2


def test_metadata_without_a_version_is_refused() -> None:
    image = python_image({}).file(f"{SITE}/vllm-0.17.1.dist-info/METADATA", "Name: vllm\n")
    root = find_package(image.tree, "vllm", image="base")

    with pytest.raises(DistInfoError):
        installed_version(image.tree, image.read, root, image="base")


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (f"{SITE}/vllm/model_executor/models/registry.py", True),
        (f"{VENV}/vllm/__init__.py", True),
        (f"{SITE}/vllm/_C.abi3.so", False),
        (f"{SITE}/vllm/fused_moe/configs/gb10.json", True),
        (f"{SITE}/vllm/fused_moe/configs/h100.json", False),
        (f"{SITE}/torch/__init__.py", False),
        (f"{SITE}/vllm_plugin/__init__.py", False),
        ("srv/vllm/__init__.py", False),
        (f"{SITE}/torch-2.10.dist-info/METADATA", True),
        (f"{SITE}/torch-2.10.dist-info/entry_points.txt", True),
        (f"{SITE}/torch-2.10.dist-info/RECORD", False),
    ],
)
def test_the_reader_keeps_modules_wanted_files_and_metadata(path: str, *, kept: bool) -> None:
    assert keep_for(["vllm"], ["fused_moe/configs/gb10.json"])(path) is kept


def test_without_packages_only_metadata_is_kept() -> None:
    keep = keep_for([])

    assert not keep(f"{SITE}/vllm/__init__.py")
    assert keep(f"{SITE}/vllm-1.dist-info/METADATA")
