"""The README of the example shows commands and what they print; this runs them and compares."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

    from tests.integration.story.conftest import Examples

README: Final = Path(__file__).resolve().parents[3] / "examples/entrypoint-collision/README.md"
ANYTHING: Final = "…"
REFUSED: Final = 4


def shown() -> list[tuple[str, str]]:
    """Each command in a console block with the output below it."""
    blocks = re.findall(r"^```console\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    runs = (run for block in blocks for run in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:])
    return [(command, output) for command, _, output in (run.partition("\n") for run in runs)]


def cases() -> list[ParameterSet]:
    """Builds first and in any place; what needs nodes in its order and on the lab."""
    needs_nodes = [(command, output) for command, output in shown() if " build " not in command]
    alone = [[pair] for pair in shown() if pair not in needs_nodes]
    assert len(alone) == 3
    assert len(needs_nodes) == 2
    return [
        *(pytest.param("examples", runs, id=runs[0][0]) for runs in alone),
        pytest.param("on_the_lab", needs_nodes, id="on the nodes", marks=pytest.mark.lab),
    ]


@pytest.mark.parametrize(("place", "runs"), cases())
def test_the_commands_print_what_the_readme_shows(
    place: str, runs: list[tuple[str, str]], request: pytest.FixtureRequest
) -> None:
    examples: Examples = request.getfixturevalue(place)
    if place == "on_the_lab":
        assert examples.inv("lock", "hybrid").returncode == 0
    for command, output in runs:
        program, *words = shlex.split(command)
        assert program == "inv"
        ended = examples.run(*words)
        pattern = re.escape(output).replace(ANYTHING, ".*")
        printed = ended.stdout + ended.stderr
        assert re.fullmatch(pattern, printed), f"{command}\n{printed}"
        assert ended.returncode == (REFUSED if output.startswith("error: ") else 0)
