"""The file at [ssh] config is asked for by those who need the nodes, and by nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from builder.read.errors import SshConfigMissingError
from deploy import daily
from deploy import pipeline as deployer
from verify.run import run_checks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.project import Project

NEED_NODES: dict[str, Callable[[Path], object]] = {
    "plan": deployer.plan,
    "deploy": lambda file: deployer.deploy(file, Silent()),
    "status": daily.status,
    "stop": daily.stop,
    "logs": lambda file: daily.logs(file, tail=1),
    "verify": lambda file: run_checks(file, progress=Silent()),
}


def test_a_name_that_no_file_can_have_is_told_as_well(project: Project) -> None:
    project.edit('[[nodes]]\nname = "a"', f'[ssh]\nconfig = "{"x" * 300}"\n\n[[nodes]]\nname = "a"')
    project.lock()
    with pytest.raises(SshConfigMissingError):
        deployer.plan(project.file)


@pytest.mark.parametrize("verb", NEED_NODES)
def test_a_lab_that_was_never_up_is_told_once_with_the_line(project: Project, verb: str) -> None:
    project.edit('[[nodes]]\nname = "a"', '[ssh]\nconfig = "lab/config"\n\n[[nodes]]\nname = "a"')
    project.lock()
    with pytest.raises(SshConfigMissingError) as caught:
        NEED_NODES[verb](project.file)
    (message,) = caught.value.messages
    line = project.file.read_text().splitlines().index('config = "lab/config"') + 1
    assert message.place == f"{project.file}:{line}: ssh.config"
    assert message.found == f"no file {project.folder / 'lab/config'}"
    assert "inv lab.up" in message.remedy
