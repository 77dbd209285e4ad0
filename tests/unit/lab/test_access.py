"""The way into the nodes."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from deploy.lab.access import write_access
from deploy.lab.spec import LabSpec

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("folder", ["lab", "a lab at 100% of #1"])
def test_ssh_itself_reads_the_configuration_as_meant(tmp_path: Path, folder: str) -> None:
    spec = LabSpec(root=tmp_path, folder=folder)
    write_access(spec)
    argv = ["ssh", "-G", "-F", str(spec.ssh_config), "spark-b"]
    output = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    options = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    assert options["hostname"] == "198.18.77.12"
    assert options["stricthostkeychecking"] == "true"
    assert options["hostkeyalias"] == "spark-b"
    assert options["batchmode"] == "yes"
    assert options["identityfile"].replace("%%", "%") == str(spec.path / "key")
    assert options["userknownhostsfile"].replace("%%", "%") == str(spec.path / "known_hosts")


def test_writing_again_keeps_the_keys(tmp_path: Path) -> None:
    spec = LabSpec(root=tmp_path)
    write_access(spec)
    before = {path: path.read_bytes() for path in spec.path.rglob("*") if path.is_file()}
    write_access(spec)
    assert {path: path.read_bytes() for path in spec.path.rglob("*") if path.is_file()} == before


def test_private_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    spec = LabSpec(root=tmp_path)
    write_access(spec)
    for key in (spec.path / "key", *(spec.path / "hostkeys" / node.name for node in spec.nodes)):
        assert key.stat().st_mode & 0o777 == 0o600
