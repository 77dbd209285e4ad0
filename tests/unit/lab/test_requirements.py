"""What a machine must have, and what is said when it has not."""

from __future__ import annotations

import pytest

from deploy.lab.errors import ROOT_NEEDED, RequirementsMissingError
from deploy.lab.requirements import (
    Missing,
    install_command,
    install_missing,
    missing_requirements,
)

DOCKERD = Missing("dockerd", "docker.io")
MISSING = (Missing("sshd", "openssh-server"), DOCKERD, Missing("docker", "docker.io"))


def test_the_command_names_each_package_once() -> None:
    expected = "apt-get install -y --no-install-recommends docker.io openssh-server"
    assert " ".join(install_command(MISSING)) == expected


def test_there_is_no_command_for_what_no_package_brings() -> None:
    assert install_command([Missing("root")]) == ()


def test_nothing_is_announced_when_nothing_is_missing() -> None:
    said: list[str] = []
    install_missing(tuple, said.append, allowed=True)
    assert not said


def test_installing_when_not_allowed_is_refused_with_the_command() -> None:
    said: list[str] = []
    with pytest.raises(RequirementsMissingError) as caught:
        install_missing(lambda: [DOCKERD], said.append, allowed=False)
    assert not said
    assert caught.value.exit_code == 5
    assert "missing: dockerd" in str(caught.value)
    assert "apt-get install -y --no-install-recommends docker.io" in str(caught.value)


def test_nothing_is_installed_on_a_machine_that_can_never_carry_a_lab() -> None:
    said: list[str] = []
    with pytest.raises(RequirementsMissingError, match="an x86-64 processor"):
        install_missing(
            lambda: [Missing("an x86-64 processor"), DOCKERD], said.append, allowed=True
        )
    assert not said


def test_who_is_not_root_is_told_to_install_and_to_run_it_as_root() -> None:
    both = RequirementsMissingError([ROOT_NEEDED, "dockerd"], install_command([DOCKERD]))
    (message,) = both.messages
    assert message.remedy == (
        "as root: apt-get install -y --no-install-recommends docker.io"
        "; then run the same command as root"
    )
    (message,) = RequirementsMissingError([ROOT_NEEDED], ()).messages
    assert message.remedy == "run the same command as root"
    (message,) = RequirementsMissingError(["Linux"], ()).messages
    assert message.remedy == "use a machine that has it"


def test_a_program_and_a_file_are_looked_for() -> None:
    wanted = {"no-such-program": "a", "/no/such/file": "b", "sh": "c", "/etc/passwd": "d"}
    packages = {missing.package for missing in missing_requirements(wanted)}
    assert packages >= {"a", "b"}
    assert packages.isdisjoint({"c", "d"})
