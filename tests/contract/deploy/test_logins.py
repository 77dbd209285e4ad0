"""Logins that are begun by a manifest as it is written, before it is checked."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.edges.logins import begin, begun
from deploy.edges.ssh import NodeConnection, Opening
from tests.contract.deploy.conftest import until

if TYPE_CHECKING:
    from deploy.edges.master import Destination
    from tests.contract.deploy.conftest import Sshd


def written(folder: Path, to: Destination) -> Path:
    """A manifest that names one node."""
    file = folder / "cluster.toml"
    node = f'[[nodes]]\nname = "{to.node}"\nssh = "{to.ssh}"\n'
    section = f'[ssh]\nconfig = "{to.config}"\nconnect_timeout_s = {to.connect_timeout_s}\n'
    file.write_text(section + node)
    return file


def children() -> set[str]:
    """The processes that this one has started and not yet seen end."""
    return {
        pid
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    }


def test_a_login_that_was_begun_is_the_connection(sshd: Sshd, tmp_path: Path) -> None:
    to = sshd.destination()
    before = children()
    with begun(written(tmp_path, to)) as logins:
        (login,) = children() - before
        with NodeConnection(to, Opening(logins)) as connection:
            assert str(connection._master.process.pid) == login
            assert connection.run(("echo", "here")).stdout == b"here\n"
        assert logins.take(to) is None
    until(lambda: login not in children())


def test_a_login_to_what_the_checked_manifest_does_not_say_is_not_used_and_ends(
    sshd: Sshd, tmp_path: Path
) -> None:
    to = sshd.destination()
    before = children()
    with begun(written(tmp_path, to)) as logins:
        (login,) = children() - before
        other = replace(to, connect_timeout_s=to.connect_timeout_s + 1)
        with NodeConnection(other, Opening(logins)) as connection:
            assert str(connection._master.process.pid) != login
    assert children() == before


def test_a_login_that_was_begun_before_the_task_is_the_tasks(sshd: Sshd, tmp_path: Path) -> None:
    file = written(tmp_path, sshd.destination())
    before = children()
    begin(file)
    (login,) = children() - before
    with begun(file) as logins:
        assert children() - before == {login}
        with NodeConnection(sshd.destination(), Opening(logins)) as connection:
            assert str(connection._master.process.pid) == login
    until(lambda: login not in children())


def test_a_failure_ends_what_was_begun(sshd: Sshd, tmp_path: Path) -> None:
    before = children()
    with suppress(LookupError), begun(written(tmp_path, sshd.destination())):
        assert children() > before
        raise LookupError
    assert children() == before


@pytest.mark.parametrize("ssh", ["-oProxyCommand=id", "two words", "a;b", ""])
def test_nothing_is_begun_for_what_the_manifest_refuses(
    sshd: Sshd, tmp_path: Path, ssh: str
) -> None:
    before = children()
    file = written(tmp_path, sshd.destination())
    text = file.read_text().replace(f'ssh = "{sshd.destination().ssh}"', f'ssh = "{ssh}"')
    file.write_text(text)
    with begun(file):
        assert children() == before


@pytest.mark.parametrize(
    "text", ["", "nodes = 3", "[[nodes]]\nssh = 1", "= broken", "[nodes]\na=1"]
)
def test_nothing_is_begun_for_what_is_no_manifest(tmp_path: Path, text: str) -> None:
    before = children()
    file = tmp_path / "cluster.toml"
    file.write_text(text)
    with begun(file), begun(tmp_path / "none.toml"):
        assert children() == before
