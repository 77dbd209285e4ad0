from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from builder.digest import digest_bytes, hex_of
from builder.manifest import cluster_digest
from deploy.boot import BootSetup, boot_port, boot_setup
from deploy.boot_errors import BootRightsError, NoSystemdError, OldPythonError
from deploy.boot_reports import BootReport, NodeBoot
from deploy.edges.boot import BootNode
from deploy.edges.ssh import Completed
from deploy.launch import launch
from tests.unit.deploy.clusters import document, lock, manifest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

RIGHT = NodeBoot("a", "1 (abc)", (), "enabled", "active", said="generation 1 runs")
NONE = NodeBoot("a", "", (), "disabled", "inactive")


def setup(**serve: int) -> BootSetup:
    parsed = document()
    parsed["serve"] |= serve
    manifest = manifest_of(parsed)
    return boot_setup(manifest, manifest.head, b"program")


def digests(of: BootSetup) -> dict[str, str]:
    return {file.path: hex_of(digest_bytes(file.data)) for file in of.files}


def test_a_manifest_that_says_nothing_of_boot_has_the_digest_that_it_had() -> None:
    parsed = document()
    unset = manifest_of(parsed)
    assert "on_boot" not in json.dumps(unset.stated())
    parsed["container"]["on_boot"] = "pair"
    pair = manifest_of(parsed)
    assert cluster_digest(pair) != cluster_digest(unset)
    assert [spec.digest for spec in launch(pair, lock())] == [
        spec.digest for spec in launch(unset, lock())
    ]


def test_files_made_for_other_settings_are_told() -> None:
    of = setup()
    assert of.missing(digests(of)) == ()
    assert of.missing({}) == tuple(file.path for file in of.files)
    assert of.missing(digests(setup(master_port=4000))) == (f"{of.folder}/boot.json",)


def test_the_secret_is_in_no_file_but_its_own() -> None:
    of = setup()
    assert of.secret_path not in digests(of)
    assert all(file.mode == "0644" for file in of.files)


def test_the_port_stays_a_port() -> None:
    parsed = document()
    parsed["serve"]["master_port"] = 65530
    assert boot_port(manifest_of(parsed)) == 65520


def test_nodes_that_do_not_do_as_declared_end_with_6_and_a_remedy() -> None:
    missing = BootReport("pair", "pair", (RIGHT, NONE))
    assert (missing.exit_code, missing.text().splitlines()[-1]) == (6, "run `inv boot --install`")
    extra = BootReport("pair", "never", (RIGHT, NONE))
    assert (extra.exit_code, extra.text().splitlines()[-1]) == (6, "run `inv boot --remove`")


def test_nodes_that_do_as_declared_end_with_0_and_tell_their_last_words() -> None:
    report = BootReport("pair", "pair", (RIGHT,))
    assert report.exit_code == 0
    assert report.text() == (
        'pair: [container] on_boot = "pair"\n'
        "a  version 1 (abc), enabled, active\n"
        "  generation 1 runs"
    )
    assert report.as_json()["as_declared"] is True
    assert BootReport("pair", "never", (NONE,)).exit_code == 0


class FakeConnection:
    """A node on which commands end as told, by their first words."""

    def __init__(self, **statuses: int) -> None:
        self.statuses = statuses
        self.ran: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], **_options: object) -> Completed:
        self.ran.append(tuple(argv))
        word = {"sh": "systemctl", "/usr/bin/python3": "python"}.get(argv[0], argv[0])
        said = b"me\n" if argv[0] == "id" else b""
        return Completed(tuple(argv), self.statuses.get(word, 0), said, "")


def node(connection: FakeConnection) -> BootNode:
    return BootNode(connection, setup())  # type: ignore[arg-type] # all it asks of it is run()


def test_a_user_without_rights_is_told_so_before_anything_is_written() -> None:
    connection = FakeConnection(sudo=1)
    with pytest.raises(BootRightsError, match="the ssh user is me"):
        node(connection).require()
    assert not any("mkdir" in argv for argv in connection.ran)


def test_a_user_with_sudo_becomes_root_for_what_needs_it() -> None:
    connection = FakeConnection()
    of = node(connection)
    of.require()
    of.secret()
    assert connection.ran[-1][:3] == ("sudo", "-n", "cat")


def test_a_node_without_systemd_or_with_an_old_python_is_told_so() -> None:
    with pytest.raises(NoSystemdError):
        node(FakeConnection(systemctl=127)).require()
    with pytest.raises(OldPythonError):
        node(FakeConnection(python=1)).require_python()


def test_after_a_removal_nothing_is_said_to_be_missing() -> None:
    gone = replace(NONE, done="removed")
    text = BootReport("pair", "pair", (gone,)).text()
    assert text.splitlines()[1] == "a  removed"
    assert 'on_boot = "never"' in text
    assert BootReport("pair", "never", (gone,)).text().splitlines()[1:] == ["a  removed"]
