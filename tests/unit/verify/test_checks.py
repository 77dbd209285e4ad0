"""The checks themselves are thin; what must hold for all of them is read out of their source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import verify
from tests.integration.verify.falsified import FALSIFIED
from verify.report import GROUPS

VERIFY = Path(verify.__file__).parent
FILES = sorted((VERIFY / "checks").glob("*.py"))
CHECKS = [
    pytest.param(node, id=f"{path.stem}.{node.name}")
    for path in FILES
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef)
]


def calls(tree: ast.AST) -> list[str]:
    """`object.method` of every call of that form."""
    return [
        f"{node.func.value.id}.{node.func.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    ]


def test_every_group_has_its_file_and_every_file_its_group() -> None:
    assert {path.stem for path in FILES} == {f"test_{group}" for group in GROUPS}


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_says_in_one_line_what_it_proves_and_settles_one_claim(
    check: ast.FunctionDef,
) -> None:
    proves = ast.get_docstring(check) or ""
    assert proves.endswith(".")
    assert "\n" not in proves
    assert check.name.startswith("test_")
    assert calls(check).count("claim.settle") == 1


def test_every_claim_is_said_once() -> None:
    claims = [ast.get_docstring(param.values[0]) for param in CHECKS]  # type: ignore[arg-type] # all are functions
    assert len(claims) == len(set(claims))


def test_every_judgement_is_used_by_a_check() -> None:
    called = {name for path in FILES for name in calls(ast.parse(path.read_text()))}
    used = {name.rpartition(".")[2] for name in called}
    judgements = {
        node.name
        for path in (VERIFY / "judge").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and isinstance(node.returns, ast.Name)
        and node.returns.id == "Verdict"
    }
    assert len(judgements) > 20
    assert judgements <= used


def test_every_check_is_tried_with_facts_that_make_its_claim_false() -> None:
    checks = {str(param.id).removeprefix("test_").replace(".test_", ".") for param in CHECKS}
    untried = sorted(checks - set(FALSIFIED))
    assert not untried, (
        f"{untried}: say in FALSIFIED of tests/integration/verify/falsified.py how the facts that "
        "each of them reads are altered so that it must fail"
    )
    assert set(FALSIFIED) <= checks, "FALSIFIED has checks that no longer exist"
