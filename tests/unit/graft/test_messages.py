from __future__ import annotations

import pytest

from builder.errors import BuildError, Message
from builder.graft.acceptance import ClosureError
from builder.graft.command_findings import (
    MissingCommand,
    MissingInterpreter,
    NotExecutable,
    WrongFormat,
)
from builder.graft.errors import DistInfoError, PackageNotFoundError
from builder.graft.findings import (
    DonorFile,
    Finding,
    LostModule,
    LostName,
    MissingClass,
    OpenImport,
    OtherFailure,
    UnknownArchitecture,
    UnreadableModule,
    WrongVersion,
)
from builder.graft.table_errors import (
    ModuleUnreadableError,
    TableConflictError,
    TableNotFoundError,
    TableNotProvenError,
)

CLOSED_BY = DonorFile("qwen", "utils.py", replaces=False)
FINDINGS: list[Finding] = [
    OpenImport("a.py", 3, "vllm.b", "", None, "qwen"),
    OpenImport("a.py", 3, "vllm.b", "", None, ""),
    OpenImport("a.py", 3, "vllm.b", "X", CLOSED_BY, "qwen"),
    LostModule("a.py", 3, "vllm.b", "", "vllm.a", "b.py"),
    LostModule("a.py", 3, "vllm.b", "X", "vllm.a", "b.py"),
    LostName("a.py", 3, "vllm.b", "X", "vllm.a", "b.py", "qwen", None),
    LostName("a.py", 3, "vllm.b", "X", "vllm.a", "b.py", "", CLOSED_BY),
    UnreadableModule("a.py", 0, "a null byte"),
    UnreadableModule("a.py", 3, "invalid syntax"),
    MissingClass("p", "K", "vllm.b", "X", has_module=True, near=(), closed_by=None),
    MissingClass("p", "K", "vllm.b", "X", has_module=False, near=("c",), closed_by=CLOSED_BY),
    UnknownArchitecture("X", "r.py", "vllm", "r.py", (), None),
    WrongVersion("p", "vllm", "1", "2"),
    OtherFailure(Message("p", "what", "do")),
    MissingCommand("p", "./run.sh", "/run.sh", "/", (), ("/opt/run.sh",)),
    MissingCommand("p", "vllm", "", "/", (), ()),
    NotExecutable("p", "run.sh", "/run.sh", "a directory"),
    WrongFormat("p", "run.sh", "/run.sh", "ELF", "text"),
    MissingInterpreter("p", "/run.sh", "/bin/zsh"),
]
ERRORS: list[BuildError] = [
    PackageNotFoundError("base", "vllm", (), {}),
    PackageNotFoundError("base", "vllm", ("lib",), {"lib/vllm": "/src"}),
    DistInfoError("base", "vllm", "lib", ()),
    ModuleUnreadableError("base: /r.py", 3, "invalid syntax"),
    TableNotFoundError("base: /r.py", "T", ()),
    TableConflictError("base: /r.py", "T", [("k", 3, '("m", "C")', "1")]),
    TableNotProvenError("base: /r.py", "T"),
    ClosureError(tuple(FINDINGS)),
]


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda item: type(item).__name__)
def test_a_finding_names_its_place_and_a_remedy_in_whole_words(finding: Finding) -> None:
    message = finding.message

    assert all([message.place, message.what, message.remedy])
    assert "None" not in message.text()
    assert "  " not in message.what + message.expected + message.found + message.remedy


@pytest.mark.parametrize("error", ERRORS, ids=lambda item: type(item).__name__)
def test_an_error_is_its_messages_and_ends_in_exit_code_4(error: BuildError) -> None:
    assert str(error) == "\n\n".join(message.text() for message in error.messages)
    assert all(message.place and message.remedy for message in error.messages)
    assert error.exit_code == 4


def test_a_donor_file_that_replaces_the_bases_own_says_so() -> None:
    assert CLOSED_BY.remedy == 'add "utils.py" to the [[image.graft]] files of donor qwen'
    assert DonorFile("qwen", "utils.py", replaces=True).remedy.endswith(
        "in place of the base's own"
    )


def test_near_tables_come_first_in_the_list() -> None:
    error = TableNotFoundError("base: /r.py", "_MODEL", ["_CONFIG", "_MODELS", "_OTHER"])

    assert error.messages[0].found == "its tables: _MODELS, _CONFIG, _OTHER"


def test_a_command_found_nowhere_on_path_invents_no_target() -> None:
    assert 'target = ""' not in MissingCommand("p", "vllm", "", "/", (), ()).message.remedy
