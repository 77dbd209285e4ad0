from __future__ import annotations

import pytest

from builder.graft.imports import Import, ModuleName, imports_of
from builder.graft.names import Names, names_of
from builder.graft.syntax import parse_source

MODEL = ModuleName("vllm.models.qwen", is_package=False)
PACKAGE = ModuleName("vllm.models", is_package=True)


def imported(source: str, name: ModuleName = MODEL) -> list[tuple[str, tuple[str, ...], bool]]:
    found = imports_of(parse_source(source.encode()), name)
    return [(item.module, item.names, item.optional) for item in found]


def names(source: str, name: ModuleName = MODEL) -> Names:
    return names_of(parse_source(source.encode()), name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("vllm/models/qwen.py", MODEL),
        ("vllm/models/__init__.py", PACKAGE),
        ("vllm/__init__.py", ModuleName("vllm", is_package=True)),
    ],
)
def test_a_path_below_the_site_folder_is_a_dotted_name(path: str, name: ModuleName) -> None:
    assert ModuleName.of(path) == name


@pytest.mark.parametrize(
    ("source", "module", "taken"),
    [
        ("import vllm.utils", "vllm.utils", ()),
        ("import vllm.utils as u", "vllm.utils", ()),
        ("from vllm.utils import a as b, c", "vllm.utils", ("a", "c")),
        ("from vllm.utils import *", "vllm.utils", ("*",)),
        ("from . import a", "vllm.models", ("a",)),
        ("from .llama import A", "vllm.models.llama", ("A",)),
        ("from ..layers.norm import A", "vllm.layers.norm", ("A",)),
        ("from ... import a", "...", ("a",)),
    ],
)
def test_imports_become_absolute(source: str, module: str, taken: tuple[str, ...]) -> None:
    assert imported(source) == [(module, taken, False)]


def test_dots_in_a_package_start_at_the_package_itself() -> None:
    assert imported("from .llama import A\nfrom .. import b", PACKAGE) == [
        ("vllm.models.llama", ("A",), False),
        ("vllm", ("b",), False),
    ]


def test_imports_inside_functions_and_classes_are_found_with_their_lines() -> None:
    source = (
        "class A:\n    import a\n    async def f(self):\n        with x:\n            import b\n"
    )

    assert imports_of(parse_source(source.encode()), MODEL) == (
        Import(2, "a", (), optional=False),
        Import(5, "b", (), optional=False),
    )


@pytest.mark.parametrize(
    "source",
    [
        "if x:\n    import a",
        "if x:\n    pass\nelse:\n    import a",
        "def f():\n    if x:\n        import a",
        "try:\n    import a\nexcept ImportError:\n    pass",
        "try:\n    import a\nexcept (OSError, ModuleNotFoundError) as e:\n    pass",
        "try:\n    import a\nexcept:\n    pass",
        "try:\n    import a\nexcept builtins.Exception:\n    pass",
        "try:\n    f()\nexcept OSError:\n    import a",
        "with contextlib.suppress(ImportError):\n    import a",
        "match x:\n    case 1:\n        import a",
    ],
)
def test_imports_that_may_fail_or_not_run_are_optional(source: str) -> None:
    assert imported(source) == [("a", (), True)]


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import a\nexcept OSError:\n    pass",
        "try:\n    import a\nexcept errors():\n    pass",
        "try:\n    import a\nfinally:\n    pass",
        "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    import a",
        "for x in y:\n    import a",
        "with open(x):\n    import a",
        "if not TYPE_CHECKING:\n    import a",
        "if TYPE_CHECKING:\n    import b\nelse:\n    import a",
    ],
)
def test_imports_that_must_work_are_not(source: str) -> None:
    assert imported(source) == [("a", (), False)]


@pytest.mark.parametrize("test", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_what_only_a_type_checker_reads_is_neither_imported_nor_bound(test: str) -> None:
    source = f"if {test}:\n    from a import B\n    C = 1\n"

    assert imported(source) == []
    assert not {"B", "C"} & names(source).bound


@pytest.mark.parametrize(
    "source",
    [
        "X = 1",
        "X: int = 1",
        "a, (b, *X) = y",
        "X += 1",
        "def X(): ...",
        "async def X(): ...",
        "class X: ...",
        "import X",
        "import X.y",
        "import y as X",
        "from y import X",
        "from y import z as X",
        "for X in y: ...",
        "with y as X: ...",
        "if (X := y): ...",
        "if y:\n    X = 1",
        "try:\n    X = 1\nexcept OSError:\n    pass",
        "match y:\n    case [X]: ...",
        "match y:\n    case {**X}: ...",
        "def f():\n    global X\n    X = 1",
    ],
)
def test_a_binding_of_any_kind_provides_its_name(source: str) -> None:
    assert "X" in names(source).bound


@pytest.mark.parametrize(
    "source",
    ["X: int", "def f():\n    X = 1", "class A:\n    X = 1", "[X for X in y]", "y.X = 1", "X"],
)
def test_names_of_other_scopes_are_not_provided(source: str) -> None:
    assert "X" not in names(source).bound


def test_star_imports_are_named_by_their_modules() -> None:
    assert names("from .llama import *\nfrom torch import *").stars == (
        "vllm.models.llama",
        "torch",
    )


@pytest.mark.parametrize(
    ("source", "public"),
    [
        ("", None),
        ("__all__ = ['a', 'b']", {"a", "b"}),
        ("__all__: list[str] = ['a']\n__all__ += ('b',)", {"a", "b"}),
        ("__all__ = ['a'] + other", None),
        ("__all__ = ['a']\n__all__ += other.__all__", None),
        ("__all__ = ['a']\n__all__.extend(other)", None),
    ],
)
def test_public_names_are_those_of_a_literal_all(source: str, public: set[str] | None) -> None:
    assert names(source).public == public


LAZY = """\
_CLASS_TO_MODULE = {"A": "vllm.a", "B": "vllm.b"}

def __getattr__(name: str):
    "Lazily."
    import importlib
    if name in _CLASS_TO_MODULE:
        return getattr(importlib.import_module(_CLASS_TO_MODULE[name]), name)
    elif name == "C":
        return 1
    elif name in ("D", "E"):
        return 2
    elif name in globals():
        return globals()[name]
    raise AttributeError(name)
"""


def test_a_lazy_module_serves_the_names_of_its_tables() -> None:
    found = names(LAZY)

    assert found.served == {"A", "B", "C", "D", "E"}
    assert not found.any_name


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(LAZY.replace("raise", "return"), id="answers every name"),
        pytest.param(LAZY.replace("    raise AttributeError(name)\n", ""), id="answers with None"),
        pytest.param(LAZY.replace('name == "C"', "known(name)"), id="unknown test"),
        pytest.param(LAZY.replace('name == "C"', 'name != "C"'), id="test of another kind"),
        pytest.param(LAZY.replace('name == "C"', "name in tables()"), id="unknown table"),
        pytest.param(LAZY.replace("    import importlib", "    return 1"), id="early return"),
        pytest.param(LAZY.replace('"B": "vllm.b"', "**more()"), id="unknown part of the table"),
        pytest.param(LAZY + "_CLASS_TO_MODULE.update(more)\n", id="table changed later"),
        pytest.param(LAZY + "_CLASS_TO_MODULE['C'] = 'c'\n", id="table written later"),
        pytest.param("globals().update(more)\n", id="namespace as data"),
        pytest.param("sys.modules[__name__] = Module()\n", id="module replaced"),
    ],
)
def test_a_module_whose_names_cannot_be_told_may_provide_any(source: str) -> None:
    assert names(source).any_name


def test_a_lazy_module_may_refuse_in_an_else() -> None:
    source = (
        "T = {'A': 1}\nif typing.TYPE_CHECKING:\n    B = 1\nelse:\n"
        "    def __getattr__(name):\n        if name in T:\n            return T[name]\n"
        "        else:\n            raise AttributeError(name)\n"
    )

    assert names(source).served == {"A"}
    assert not names(source).any_name
