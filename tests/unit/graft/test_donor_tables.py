from __future__ import annotations

import tomllib

import pytest

from builder.graft.findings import DonorFile
from builder.graft.table_findings import MissingEntries, UnnamedInCode
from builder.image_section import Register
from tests.unit.graft.attempts import grafted
from tests.unit.graft.images import SITE

NEW = "models/foo_moe.py"
CONFIG = "configs/foo.py"
FILES = [NEW, CONFIG]
REGISTRY = "model_executor/models/registry.py"
GRAFTED = {
    NEW: "class FooMoeForCausalLM: ...\nclass FooMoeMTP: ...\n",
    CONFIG: 'class FooConfig:\n    model_type = "foo_x"\n',
}
BASE = {
    REGISTRY: '_MODELS = {"Old": ("old", "Old")}\n',
    "models/old.py": "class Old: ...\n",
    "config.py": "class Hook: ...\nHOOKS = {}\nLAZY = Lazy(old='OldConfig')\nKINDS = ['old']\n",
}


def found(donor: dict[str, str], image: dict[str, str] | None = None) -> list[object]:
    """The findings of a graft of GRAFTED, with some other files of the donor and the image."""
    return list(grafted(BASE | (image or {}), BASE | GRAFTED | donor, FILES))


@pytest.mark.parametrize(
    ("text", "table", "entries", "register"),
    [
        (
            'HOOKS = {"FooMoeForCausalLM": Hook}',
            "HOOKS",
            "FooMoeForCausalLM: Hook",
            'entries = { "FooMoeForCausalLM" = { name = "Hook" } }',
        ),
        (
            'HOOKS = {"a": {"foo_x": ("foo_moe", "FooMoeMTP")}}',
            'HOOKS["a"]',
            "foo_x: ('foo_moe', 'FooMoeMTP')",
            'table = \'HOOKS["a"]\'\nentries = { "foo_x" = ["foo_moe", "FooMoeMTP"] }',
        ),
        ('HOOKS["foo_moe"] = "x"', "HOOKS", "foo_moe: 'x'", 'entries = { "foo_moe" = "x" }'),
        (
            'LAZY = Lazy(old="OldConfig", foo_moe="FooConfig", bar="BarConfig")',
            "LAZY",
            "foo_moe: 'FooConfig'",
            'table = "LAZY"\nentries = { "foo_moe" = "FooConfig" }',
        ),
        ('LAZY = Lazy(dict(foo_moe="y"))', "LAZY", "foo_moe: 'y'", '"foo_moe" = "y"'),
        ('LAZY = [("foo_moe", "y")]', "LAZY", "foo_moe: 'y'", '"foo_moe" = "y"'),
        ("KINDS = ['old', 'foo_x']", "KINDS", "'foo_x'", 'entries = ["foo_x"]'),
        ('KINDS = ["vllm.configs.foo"]', "KINDS", "'vllm.configs.foo'", '["vllm.configs.foo"]'),
        (
            'class Table:\n    KINDS = {"a": "vllm.configs.foo:FooConfig"}',
            "Table.KINDS",
            "a: 'vllm.configs.foo:FooConfig'",
            'table = "Table.KINDS"',
        ),
    ],
)
def test_an_entry_of_any_table_for_a_grafted_name_is_found(
    text: str, table: str, entries: str, register: str
) -> None:
    (finding,) = found({"config.py": f"class Hook: ...\n{text}\n"})

    assert isinstance(finding, MissingEntries)
    assert finding.table == table
    assert finding.closed_by == DonorFile("new", "config.py", replaces=True)
    message = finding.message
    assert message.place == f"/{SITE}/vllm/config.py"
    assert message.expected.startswith(entries)
    assert register in message.remedy
    assert message.remedy.startswith("add\n[[image.register]]\n")
    (written,) = tomllib.loads(message.remedy.removeprefix("add\n"))["image"]["register"]
    assert Register.model_validate(written, strict=False).table == table


@pytest.mark.parametrize(
    "text",
    [
        'HOOKS = {"FooMoeForCausalLM": OtherHook}',  # a class that the image's module lacks
        'HOOKS = {"foo_moe": lambda x: x}',
        'KINDS = Literal["old", "foo_moe"]',
    ],
)
def test_what_a_register_cannot_write_is_left_to_a_patch_or_the_donors_file(text: str) -> None:
    (finding,) = found({"config.py": text})

    assert isinstance(finding, MissingEntries)
    assert finding.message.remedy == (
        'add the entries by [[image.patch]], or add "config.py" to the [[image.graft]] files of '
        "donor new, in place of the base's own"
    )


def test_a_table_in_a_file_that_the_image_lacks_comes_with_the_file() -> None:
    (finding,) = found({"extra.py": 'T = {"foo_moe": 1}\n'})

    assert isinstance(finding, MissingEntries)
    assert finding.message.found == "no such file"
    assert 'add "extra.py" to the [[image.graft]] files of donor new' in finding.message.remedy


def test_code_that_treats_grafted_names_apart_is_found_once_for_each_function() -> None:
    code = (
        "class Spec:\n    def override(self, c):\n"
        '        if c.model_type in ("foo_moe", "foo_x"):\n            c.model_type = "foo_moe"\n'
    )
    (finding,) = found({"spec.py": code}, {"spec.py": "class Spec: ...\n"})

    assert isinstance(finding, UnnamedInCode)
    assert (finding.function, finding.words) == ("Spec.override", ("foo_moe", "foo_x"))
    assert finding.message.text() == (
        f"/{SITE}/vllm/spec.py: donor new has code for the grafted files here, and the assembled "
        "image does not\n"
        "  expected: code that names foo_moe, foo_x, as line 3 of Spec.override of the donor's "
        "version does\n"
        "  found:    none of them\n"
        '  remedy:   bring that code over by [[image.patch]], or add "spec.py" to the '
        "[[image.graft]] files of donor new, in place of the base's own"
    )


@pytest.mark.parametrize(
    ("donor", "image"),
    [
        ({"config.py": 'HOOKS = {"foo_x": 1}\n'}, {"config.py": 'HOOKS = {"foo_x": 2}\n'}),
        ({"config.py": 'HOOKS = {"foo_x": 1}\n'}, {"c.py": 'HOOKS = {"foo_x": 1}\n'}),
        ({"config.py": 'HOOKS = {"foo_x": 1}\n'}, {"config.py": "LAZY = D(foo_x=1)\n"}),
        ({"config.py": 'HOOKS = {"other_model": 1}\n'}, {}),
        ({"config.py": '"""Docs of foo_moe."""\n# foo_moe\n'}, {}),
        ({"config.py": "from vllm.models.foo_moe import FooMoeMTP\nFooMoeMTP()\n"}, {}),
        ({"config.py": '__all__ = ["FooConfig"]\n'}, {}),
        ({"config.py": 'if TYPE_CHECKING:\n    HOOKS = {"foo_x": 1}\n'}, {}),
        ({"a.py": 'def f(c): return c == "foo_x"\n'}, {"a.py": 'def g(c): return c != "foo_x"\n'}),
    ],
)  # fmt: skip
def test_what_the_image_has_too_or_what_registers_nothing_is_silent(
    donor: dict[str, str], image: dict[str, str]
) -> None:
    assert found(donor, image) == []


def test_a_model_type_that_the_base_knows_is_not_taken_from_a_class_name() -> None:
    donor = {"config.py": 'HOOKS = {"foo_moe": 1}\n'}

    assert found(donor) != []
    assert found(donor, {"models/foo.py": 'kind = "foo_moe"\n', NEW: ""}) == []


def test_a_file_that_replaces_another_counts_by_what_is_new_in_it() -> None:
    base = {"models/net.py": "class Net: ...\n", "t.py": "T = {}\n"}
    donor = {
        "models/net.py": "class Net: ...\nclass Wide: ...\n",
        "t.py": 'T = {"Net": 1, "net": 2, "Wide": 3}\n',
    }

    (finding,) = grafted(base, donor, ["models/net.py"])

    assert isinstance(finding, MissingEntries)
    assert [entry.key for entry in finding.entries] == ["Wide"]


def test_a_graft_onto_the_donors_own_package_is_silent() -> None:
    donor = BASE | GRAFTED | {"config.py": 'HOOKS = {"foo_x": 1}\n'}

    assert grafted(donor, donor, FILES) == ()
