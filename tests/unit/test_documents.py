"""No document or message names a command that is not there: tasks.py has its task and options."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from invoke.collection import Collection
from invoke.exceptions import ParseError
from invoke.loader import FilesystemLoader
from invoke.parser import Parser
from invoke.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENTS: Final = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("examples/**/*.md")),
]
SHOWN: Final = re.compile(
    r"^\s*(?:\$ )?(?:\./)?inv (?P<line>.+)$"  # in a block of code
    r"|`(?:\./)?inv\s+(?P<span>[^`]+)`",  # in a sentence or a table
    re.MULTILINE,
)
NAMED: Final = re.compile(r"\binv ([a-z][a-z.]*[a-z])")
SOURCES: Final = [
    ROOT / "tasks.py",
    *(
        path
        for part in ("builder", "deploy", "verify")
        for path in sorted((ROOT / part).rglob("*.py"))
    ),
]
PLACEHOLDER: Final = re.compile(r"TASK\b")


def commands(text: str) -> Iterator[list[str]]:
    """The words behind each `inv`, without comments; one line can hold several commands."""
    for match in SHOWN.finditer(text):
        words = shlex.split((match["line"] or match["span"]), comments=True)
        command: list[str] = []
        for word in words:
            command.append(word.rstrip(";"))
            if word.endswith(";") or word == "&&":
                yield [item for item in command if item not in ("inv", "&&")]
                command = []
        yield [item for item in command if item != "inv"]


@pytest.fixture(scope="module")
def parser() -> Parser:
    """The parser that `inv` uses."""
    tasks, _ = FilesystemLoader(start=str(ROOT)).load("tasks")
    contexts = Collection.from_module(tasks).to_contexts()
    return Parser(contexts=contexts, initial=Program().initial_context)


def complaint(parser: Parser, command: list[str]) -> str:
    """Why `inv` would refuse the command; empty if it would not."""
    asked = command[1:] if command[0] == "--help" else command
    if PLACEHOLDER.match(asked[0]):
        return ""
    try:
        parser.parse_argv(asked)
    except ParseError as error:
        return f"inv {shlex.join(command)}: {error}"
    return ""


def test_commands_are_found_in_blocks_tables_and_sentences() -> None:
    text = """Run `inv lock`, or

    $ ./inv build --output DIR   # a comment
    inv stop; inv lab.down
    ./inv check && inv test --fast

| look | `inv status`, `./inv
logs --tail 5` |
"""
    assert list(commands(text)) == [
        ["lock"],
        ["build", "--output", "DIR"],
        ["stop"],
        ["lab.down"],
        ["check"],
        ["test", "--fast"],
        ["status"],
        ["logs", "--tail", "5"],
    ]


@pytest.mark.parametrize(
    "command", [["nothing"], ["lock", "--nothing"], ["build", "--output"], ["deploy", "extra"]]
)
def test_a_command_that_inv_would_refuse_is_found(parser: Parser, command: list[str]) -> None:
    assert complaint(parser, command).startswith(f"inv {command[0]}")


def test_a_good_command_is_none(parser: Parser) -> None:
    assert complaint(parser, ["build", "--locked", "--file", "other/cluster.toml"]) == ""
    assert complaint(parser, ["--help", "build"]) == ""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_in_a_document_exists(path: Path, parser: Parser) -> None:
    found = [complaint(parser, command) for command in commands(path.read_text())]
    assert [text for text in found if text] == []


def test_the_documents_do_show_commands() -> None:
    assert len(list(commands((ROOT / "README.md").read_text()))) > 10


def named_tasks(source: str) -> set[str]:
    """What the texts of a module call by `inv NAME`: messages, remedies, docstrings."""
    texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {name for text in texts if isinstance(text, str) for name in NAMED.findall(text)}


def test_tasks_are_found_in_the_texts_of_code() -> None:
    source = (
        'def f(x):\n    """Says `inv lab.up`."""\n    return f"{x}: then inv lock, or inv plan."\n'
    )
    assert named_tasks(source) == {"lab.up", "lock", "plan"}


def test_every_task_that_a_message_names_exists(parser: Parser) -> None:
    named = {(path, name) for path in SOURCES for name in named_tasks(path.read_text())}
    assert len({name for _, name in named}) > 5
    missing = {
        f"{path.relative_to(ROOT)}: inv {name}"
        for path, name in named
        if name not in parser.contexts  # their arguments may be left out of a sentence
    }
    assert missing == set()
