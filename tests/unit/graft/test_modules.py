from __future__ import annotations

import pytest

from builder.graft.modules import Modules
from tests.unit.graft.images import SITE, MemoryImage, python_image


def modules(image: MemoryImage) -> Modules:
    return Modules(image.tree, image.read, SITE)


def provides(files: dict[str, str], module: str, name: str) -> bool:
    return modules(python_image(files)).provides(module, name)


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("vllm", "vllm/__init__.py"),
        ("vllm.models", "vllm/models/__init__.py"),
        ("vllm.models.llama", "vllm/models/llama.py"),
        ("vllm._C", "vllm/_C.abi3.so"),
        ("vllm._moe", "vllm/_moe.cpython-312-aarch64-linux-gnu.so"),
        ("vllm.data", "vllm/data"),
        ("vllm.linked", "vllm/linked.py"),
    ],
)
def test_a_module_has_a_path(module: str, path: str) -> None:
    image = python_image({"models/llama.py": ""}).link(f"{SITE}/vllm/linked.py", "models/llama.py")
    image.file(f"{SITE}/vllm/_C.abi3.so").file(f"{SITE}/vllm/data/x.json")
    image.file(f"{SITE}/vllm/_moe.cpython-312-aarch64-linux-gnu.so")

    assert modules(image).path(module) == f"{SITE}/{path}"


@pytest.mark.parametrize("module", ["vllm.absent", "torch", "vllm.models.llama.x", "..models", "."])
def test_a_module_that_is_not_there_has_none(module: str) -> None:
    assert modules(python_image({"models/llama.py": ""})).path(module) is None


def test_a_package_goes_before_a_module_of_its_name() -> None:
    image = python_image({"a.py": "X = 1", "a/__init__.py": "Y = 1"})

    assert modules(image).path("vllm.a") == f"{SITE}/vllm/a/__init__.py"


def test_a_name_a_submodule_and_nothing_else_are_provided() -> None:
    files = {"models/__init__.py": "A = 1", "models/llama.py": ""}

    assert provides(files, "vllm.models", "A")
    assert provides(files, "vllm.models", "llama")
    assert provides(files, "vllm.models", "__file__")
    assert not provides(files, "vllm.models", "B")
    assert not provides(files, "vllm.absent", "A")


def test_star_imports_are_followed_through_modules() -> None:
    files = {
        "a.py": "from .b import *",
        "b.py": "from vllm.c import *",
        "c.py": "X = 1\n_Y = 1\n",
    }

    assert provides(files, "vllm.a", "X")
    assert not provides(files, "vllm.a", "_Y")
    assert not provides(files, "vllm.a", "Z")


def test_a_star_import_brings_what_all_says() -> None:
    files = {"a.py": "from .b import *", "b.py": "__all__ = ['_Y']\nX = 1\n_Y = 1\n"}

    assert provides(files, "vllm.a", "_Y")
    assert not provides(files, "vllm.a", "X")


def test_star_imports_in_a_ring_end() -> None:
    files = {"a.py": "from .b import *", "b.py": "from .a import *\nX = 1"}

    assert provides(files, "vllm.a", "X")
    assert not provides(files, "vllm.a", "Y")


def test_a_star_import_from_elsewhere_may_bring_anything() -> None:
    assert provides({"a.py": "from torch import *"}, "vllm.a", "X")
    assert not provides({"a.py": "from vllm.absent import *"}, "vllm.a", "X")


def test_a_compiled_module_may_provide_anything() -> None:
    image = python_image({}).file(f"{SITE}/vllm/_C.abi3.so")

    assert modules(image).provides("vllm._C", "x")


def test_an_unreadable_module_is_kept_in_mind_once_and_may_provide_anything() -> None:
    found = modules(python_image({"a.py": "def"}))

    assert found.provides("vllm.a", "X")
    assert found.provides("vllm.a", "Y")
    assert [(item.line, item.reason) for item in found.unreadable.values()] == [
        (1, "invalid syntax")
    ]


def test_siblings_are_modules_and_packages_of_one_folder() -> None:
    image = python_image({"models/llama.py": "", "models/mm/clip.py": "", "utils.py": ""})

    assert modules(image).siblings("vllm.models.absent") == {"llama", "mm"}
