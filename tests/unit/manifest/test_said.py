"""What is said of every wrong value (said/fields.txt) and every broken rule (said/rules.txt).

A case there is a title, lines of the good manifest that are replaced (`-` by `+`), and all that
reading the changed manifest says. Adding a case with nothing after its lines shows what is said.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.read.parts import parts_of
from builder.read.rules import RENDERED, RULES

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

    from tests.unit.manifest.conftest import Folder

SAID = Path(__file__).parent / "said"


def cases(name: str) -> list[ParameterSet]:
    """The cases of a file, as pytest's parameters."""
    found = []
    for case in re.split(r"^== ", (SAID / name).read_text(), flags=re.MULTILINE)[1:]:
        title, _, rest = case.partition("\n")
        change, _, said = rest.partition("\n\n")
        found.append(pytest.param(change, said.strip(), id=title))
    return found


def changes(text: str) -> list[tuple[str, str]]:
    """Each old part and its new one; parts are separated by a line with `~`."""
    return [(_side(part, "- "), _side(part, "+ ")) for part in text.split("\n~\n")]


def _side(part: str, sign: str) -> str:
    return "\n".join(line[2:] for line in part.split("\n") if line.startswith(sign))


@pytest.mark.parametrize(("change", "said"), cases("fields.txt"))
def test_a_wrong_value_is_told_in_full(folder: Folder, change: str, said: str) -> None:
    assert folder.error(folder.changed(*changes(change))) == said


@pytest.mark.parametrize(("change", "said"), cases("rules.txt"))
def test_a_broken_rule_is_told_in_full_and_alone(folder: Folder, change: str, said: str) -> None:
    assert folder.error(folder.changed(*changes(change))) == said


def test_every_rule_has_a_case(folder: Folder) -> None:
    broken = set()
    for case in cases("rules.txt"):
        text = folder.changed(*changes(str(case.values[0])))
        parts = parts_of(tomllib.loads(text))
        broken |= {rule for rule in RULES if list(rule(parts))}
    assert broken == set(RULES)


@pytest.mark.parametrize("option", sorted(RENDERED))
@pytest.mark.parametrize("dash", ["-", "_"])
def test_an_option_that_sparklock_renders_is_refused(
    folder: Folder, option: str, dash: str
) -> None:
    key = option.replace("-", dash)
    said = folder.error(folder.changed(("max-model-len = 256", f"{key} = 256")))
    assert said == (
        f"cluster.toml:39: serve.args.{key}: sparklock itself gives --{option} to every rank\n"
        f"  expected: {RENDERED[option]}, which decides it\n"
        f"  found:    {key}\n"
        f"  remedy:   remove it from [serve].args; {RENDERED[option]} is the place to change it"
    )


def test_a_number_beyond_64_bits_is_told_without_its_digits(folder: Folder) -> None:
    said = folder.error(folder.changed(("= 256", f"= 0x1{'0' * 5000}")))
    assert "cluster.toml:39: serve.args.max-model-len: a kind of value" in said
    assert "  found:    a number of more than 64 bits\n" in said


def test_wrong_values_and_broken_rules_are_told_together_from_top_to_bottom(folder: Folder) -> None:
    said = folder.error(
        folder.changed(
            ('name = "pair"', 'name = "The Pair"'),
            ('donor = "tiny"', 'donor = "tiny"\ncolour = "red"'),
            ('files = ["models/tiny.py"]', 'files = ["models/tiny.pyc"]'),
            ('source = "node/chat.jinja"', 'source = "node/absent.jinja"'),
            ('files = "model"', 'repo = "o/n"\nrevison = "main"'),
            ("tensor_parallel = 2", "tensor_parallel = 2\nport = 0"),
            ('ssh = "spark-b"', ""),
            ('"192.168.200.13"', '"192.168.200.12"'),
        )
    )
    assert [line for line in said.splitlines() if line.startswith("cluster.toml")] == [
        "cluster.toml:2: name: wrong value",
        "cluster.toml:16: image.graft[0].colour: unknown key",
        "cluster.toml:18: image.graft[0].files[0]: a compiled Python file cannot be grafted",
        "cluster.toml:27: image.file[0].source: a file that cannot be used",
        "cluster.toml:35: model.revison: unknown key",
        "cluster.toml:40: serve.port: wrong value",
        "cluster.toml:57: nodes[1].ssh: missing",
        "cluster.toml:62: nodes[1].fabric.address: one address on two interfaces",
    ]
