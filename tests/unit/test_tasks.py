"""The tasks as a person meets them, and the requirements they are installed from."""

from __future__ import annotations

import ast
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builder.edges.tasking import reported
from deploy.edges.start import manifest_of
from tasks import ns

ROOT = Path(__file__).parents[2]
START = "deploy/edges/start.py"
TASKS: list[str] = sorted(ns.task_names)
HEAVY = frozenset({"docker", "pytest", "testinfra", "rich", "pydantic", "requests", "tomlkit"})
LISTING = """
import sys
from invoke.main import program
program.run(["inv", *sys.argv[1:]], exit=False)
print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def invoked(*args: str) -> subprocess.CompletedProcess[str]:
    """What `inv ARGS` prints; on standard error stands which modules it loaded."""
    return subprocess.run(
        [sys.executable, "-c", LISTING, *args], cwd=ROOT, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("args", [["--list"], ["--help", "deploy"]])
def test_looking_at_the_tasks_loads_nothing_heavy(args: list[str]) -> None:
    result = invoked(*args)

    assert "deploy" in result.stdout
    loaded = {line.partition(".")[0] for line in result.stderr.splitlines()}
    assert "tasks" in loaded
    assert not loaded & HEAVY


def test_the_map_of_the_project_has_every_task_with_a_line_of_help() -> None:
    shown = invoked("--list").stdout

    for name in TASKS:
        first = ns[name].__doc__.strip().splitlines()[0]
        assert f"  {name} " in shown
        assert first.split()[0] in shown
        assert first.endswith(".")


def test_every_task_that_reads_sources_brings_the_way_to_the_engines_of_nodes() -> None:
    readers = {"lock", "build", "pin", "update", "vendor"}
    calls = [
        node
        for node in ast.walk(ast.parse((ROOT / "tasks.py").read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in readers
    ]
    assert {ast.unparse(call.func).rpartition(".")[2] for call in calls} == readers
    for call in calls:
        assert "reach" in {keyword.arg for keyword in call.keywords}, ast.unparse(call)


@pytest.mark.parametrize(
    ("task", "option"),
    [("build", "--output"), ("build", "--push"), ("gc", "--keep-lock"), ("verify", "--junit")],
)
def test_an_option_with_an_empty_text_is_refused_before_any_work(
    tmp_path: Path, task: str, option: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "invoke", task, option, "", "--file", str(tmp_path / "none.toml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert f"error: {option}:" in done.stderr


def test_a_task_that_is_interrupted_says_so_and_then_nothing_cleans_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def body() -> None:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as caught:
            reported(body)()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_an_interruption_while_the_tasks_are_imported_is_one_line(tmp_path: Path) -> None:
    shutil.copy(ROOT / "inv", tmp_path)
    (tmp_path / "deploy" / "edges").mkdir(parents=True)
    shutil.copy(ROOT / START, tmp_path / START)
    (tmp_path / "tasks.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    (tmp_path / "requirements.txt").touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / ".venv" / ".made-from").touch()

    with subprocess.Popen(
        [tmp_path / "inv", "--list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()

    assert told == "interrupted\n"
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("status", "cluster.toml"),
        ("status --json -f a/b.toml", "a/b.toml"),
        ("status --file=x.toml --drift", "x.toml"),
        ("status --file", ""),
    ],
)
def test_the_logins_that_are_begun_early_are_those_of_the_manifest_asked_for(
    words: str, file: str
) -> None:
    assert manifest_of(words.split()) == file


@pytest.mark.parametrize("words", ["--list", "--help deploy"])
def test_a_listing_whose_reader_is_gone_ends_in_silence(words: str) -> None:
    command = f"{sys.executable} -P {START} {words}; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"{{ {command}; }} | true"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "141\n"


FULL = "error: standard output: the result cannot be written: No space left on device"


@pytest.mark.parametrize(("to", "said"), [(">&-", "0\n"), (">/dev/full", f"{FULL}\n1\n")])
def test_a_listing_that_cannot_be_written_ends_without_a_traceback(to: str, said: str) -> None:
    command = f"{sys.executable} -P {START} --help deploy {to}; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == said


def test_what_invoke_need_not_import_is_there_for_whoever_does() -> None:
    code = f"""
import atexit, runpy, sys
def tell():
    assert "unittest.mock" not in sys.modules
    from unittest.mock import Mock
    assert Mock().anything
    print("both")
atexit.register(tell)
sys.argv = ["{START}", "--list"]
runpy.run_path("{START}", run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("both\n"), done.stderr


@pytest.mark.parametrize("name", TASKS)
def test_every_option_has_help(name: str) -> None:
    for argument in ns[name].get_arguments():
        assert argument.help, f"{name}: {argument.name}"


@pytest.mark.parametrize("name", TASKS)
def test_no_option_is_a_double_negation(name: str) -> None:
    for argument in ns[name].get_arguments():
        on_by_default = argument.kind is bool and argument.default is True
        assert not on_by_default, f"{name}: invoke would call it --no-{argument.name}"


def arguments(name: str) -> dict[str, Any]:
    return {argument.name: argument for argument in ns[name].get_arguments()}


@pytest.mark.parametrize("name", TASKS)
def test_an_option_has_the_same_letter_everywhere(name: str) -> None:
    shorts = {"file": "f", "json": "j", "quiet": "q"}
    for option, short in shorts.items():
        argument = arguments(name).get(option)
        assert argument is None or short in argument.names


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("requirements.txt", ("--no-dev",)),
        ("requirements-dev.txt", ("--only-group", "dev")),
    ],
)
def test_requirements_are_those_of_the_lock(file: str, options: tuple[str, ...]) -> None:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed: it is one of the development dependencies")
    exported = subprocess.run(
        [
            *(uv, "export", "--quiet", "--frozen", "--offline", "--no-emit-project", "--no-header"),
            *("--format", "requirements-txt", *options),
        ],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout

    assert (ROOT / file).read_bytes() == exported
