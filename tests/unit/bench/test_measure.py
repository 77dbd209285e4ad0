from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench.errors import MeasuredCommandError, UnknownBenchmarkError
from tests.bench.measure import alternate, output_of, probe, seconds_of
from tests.bench.run import BENCHMARKS, run_benchmarks

ROOT = Path(__file__).resolve().parents[3]
TASKS = """\
from invoke import task

@task
def small(_ctx):
    pass

@task
def large(_ctx):
    import colorsys
    b"x" * (50 * 2**20)
"""


def test_sides_take_turns_and_every_other_round_goes_in_reverse() -> None:
    order: list[str] = []

    def side(name: str, value: float) -> float:
        order.append(name)
        return value

    found = alternate(
        (lambda number: side("a", number), lambda number: side("b", 10.0 + number)), rounds=3
    )
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert [samples.values for samples in found] == [(0, 1, 2), (10, 11, 12)]


def test_a_command_that_fails_is_no_measurement() -> None:
    argv = [sys.executable, "-c", "import sys; print('why'); sys.exit(3)"]
    with pytest.raises(MeasuredCommandError, match="status 3") as caught:
        seconds_of(argv)
    assert "why" in str(caught.value)


def test_commands_run_in_the_folder_that_was_given(tmp_path: Path) -> None:
    assert output_of([sys.executable, "-c", "import os; print(os.getcwd())"], cwd=tmp_path) == (
        f"{tmp_path}\n"
    )


def test_a_probe_sees_what_a_task_imports_and_how_large_it_gets(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    small, large = (probe("-r", str(tmp_path), task, cwd=ROOT) for task in ("small", "large"))
    assert "colorsys" not in small.modules
    assert "colorsys" in large.modules
    assert 45 < large.peak_mib - small.peak_mib < 55


def test_a_name_that_no_benchmark_has_lists_those_there_are() -> None:
    with pytest.raises(UnknownBenchmarkError, match=", ".join(BENCHMARKS)):
        run_benchmarks(ROOT, only="nothing-like-it")
