"""Somebody who is no administrator of the nodes, but may use the engine there."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy import daily, keeping, pipeline
from deploy.doctor import doctor
from deploy.drifting import drift
from deploy.node_errors import DeployBusyError, GuardUnbreakableError
from tests.integration.deploy.conftest import NODES, wait_for_line
from verify.run import run_checks

if TYPE_CHECKING:
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab
USER = "plain"
ADD = f"""set -e
id {USER} >/dev/null 2>&1 || useradd --uid 4242 --groups docker --home-dir /srv/{USER} \\
  --create-home --shell /bin/bash --password '*' {USER}
install -d -m 700 -o {USER} /srv/{USER}/.ssh
install -m 600 -o {USER} /root/.ssh/authorized_keys /srv/{USER}/.ssh
install -d /srv/models
install -d -o {USER} "$1"
"""


@pytest.fixture
def plain(cluster: Cluster) -> Cluster:
    """A cluster whose nodes are reached as a member of the group docker, without sudo."""
    for node in NODES:
        cluster.node(node).run(["sh", "-c", ADD, "add", f"/srv/models/{cluster.folder.name}"])
    log_in_as(cluster, USER)
    return cluster


def log_in_as(cluster: Cluster, user: str) -> None:
    config = cluster.folder / "ssh_config"
    lines = (
        f"  User {user}" if line.startswith("  User ") else line
        for line in config.read_text().splitlines()
    )
    config.write_text("\n".join(lines) + "\n")


def test_a_member_of_the_group_docker_deploys_and_looks_after_a_pair(plain: Cluster) -> None:
    assert doctor(plain.file).fit
    plain.deploy()
    assert plain.deploy().plan.up_to_date
    assert daily.status(plain.file).plan is not None
    assert drift(plain.file).exit_code == 0
    run_checks(plain.file, progress=Silent()).require_passed()
    plain.change("container.env", VARIANT="2")
    plain.deploy()
    keeping.rollback(plain.file, None, Silent())
    keeping.sweep(plain.file, keep=0)
    assert plain.names() == {"spark-a": ["g1-r0"], "spark-b": ["g1-r1"]}
    assert plain.answers()


def test_a_plain_user_is_told_whose_guard_only_an_administrator_can_break(plain: Cluster) -> None:
    log_in_as(plain, "root")
    with plain.deploying() as process:
        wait_for_line(process, "look at the nodes")
        os.kill(process.pid, signal.SIGSTOP)
        log_in_as(plain, USER)
        with pytest.raises(DeployBusyError, match=f"pid {process.pid}"):
            pipeline.deploy(plain.file, Silent())
        with pytest.raises(GuardUnbreakableError, match="let its owner or root end it"):
            pipeline.deploy(plain.file, Silent(), break_guard=True)
