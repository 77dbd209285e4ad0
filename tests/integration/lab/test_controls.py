"""What a test can do to cables, disks and services, each shown by what the node then meets."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy.lab import disks, nodes, units
from deploy.lab.control import LabNode
from deploy.lab.errors import LabCommandError, LabSpecError, NodeOffError
from deploy.lab.lifecycle import lab_off, lab_status, lab_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deploy.lab.lifecycle import LabState

    RunContainer = Callable[..., str]

pytestmark = pytest.mark.lab

KNOCK = """
import socket, sys, time
begin = time.monotonic()
try:
    with socket.create_connection((sys.argv[1], 22), timeout=float(sys.argv[2])) as connection:
        connection.recv(4)
    print(time.monotonic() - begin)
except OSError:
    print(-1)
"""
"""Seconds until the sshd of an address has said something; -1 if nobody answers in time."""


@pytest.fixture
def pair(lab: LabState) -> Iterator[tuple[LabNode, LabNode]]:
    """Both nodes, to break; the lab is mended afterwards."""
    yield LabNode(lab.spec, "spark-a"), LabNode(lab.spec, "spark-b")
    lab_up(lab.spec, Silent())


def knocks(node: LabNode, there: LabNode, half: int = 0, timeout_s: float = 2) -> float:
    address = str(there.node.halves[half].address)
    return float(node.run(["/usr/bin/python3", "-c", KNOCK, address, str(timeout_s)]))


def test_a_power_cut_by_name_leaves_the_others_on(
    lab: LabState, pair: tuple[LabNode, LabNode]
) -> None:
    assert len(pair) == 2
    with pytest.raises(LabSpecError):
        lab_off(lab.spec, "spark-z")
    healthy = {node.name: node.healthy for node in lab_off(lab.spec, "spark-b").nodes}
    assert healthy == {"spark-a": True, "spark-b": False}
    with pytest.raises(NodeOffError):
        lab_off(lab.spec, "spark-b")


def test_systemctl_knows_the_nodes_engine_by_its_unit(pair: tuple[LabNode, LabNode]) -> None:
    _, node = pair
    systemctl = f"{units.FOLDER}/systemctl"
    assert node.run([systemctl, "is-active", "docker"]).strip() == "active"
    node.stop_engine(crash=True)
    node.run([systemctl, "start", "docker.service"])
    nodes.await_service(node.node, "engine")
    node.run(["docker", "version"])
    node.run([systemctl, "stop", "docker"])
    with pytest.raises(LabCommandError):
        node.run(["docker", "version"])


def test_a_cut_between_two_nodes_leaves_both_in_reach_of_the_machine(
    pair: tuple[LabNode, LabNode],
) -> None:
    one, other = pair
    assert knocks(one, other) >= 0
    with one.cut_from("spark-b"):
        assert knocks(one, other) == -1
        assert knocks(other, one) == -1
    assert knocks(one, other) >= 0


def test_a_node_that_is_cut_off_answers_nobody_and_is_mended_by_up(
    lab: LabState, pair: tuple[LabNode, LabNode]
) -> None:
    one, other = pair
    with ExitStack() as stack:
        stack.enter_context(other.cut_off())
        assert knocks(one, other) == -1
        with pytest.raises(LabCommandError, match="timed out"):
            other.run(["true"])
        before = {node.name: node.pid for node in lab_status(lab.spec).nodes}
        after = {node.name: node.pid for node in lab_up(lab.spec, Silent()).nodes}
        assert after == before
        assert knocks(one, other) >= 0


def test_a_slow_link_delays_both_ways_and_carries_large_frames(
    pair: tuple[LabNode, LabNode],
) -> None:
    one, other = pair
    with other.slow_link(delay_s=0.1):
        assert knocks(one, other, timeout_s=5) >= 0.4  # two round trips: connect, banner
        assert len(other.run(["head", "-c", "2000000", "/dev/zero"])) == 2_000_000
    assert knocks(one, other) >= 0


def test_a_link_that_loses_frames_carries_what_tcp_sends_again(
    pair: tuple[LabNode, LabNode],
) -> None:
    with pair[1].slow_link(loss=0.05):
        assert len(pair[1].run(["head", "-c", "200000", "/dev/zero"])) == 200_000


def test_a_small_disk_is_full_when_it_is_filled(pair: tuple[LabNode, LabNode]) -> None:
    _, node = pair
    write = ["dd", "if=/dev/zero", "of=/srv/models/x", "bs=100k", "count=1"]
    with node.small_disk("/srv/models", 4):
        full = node.filled("/srv/models", left_bytes=20_000)
        with full, pytest.raises(LabCommandError, match="No space left on device"):
            node.run(write)
        node.run(write)
    with pytest.raises(LabCommandError, match="No such file"):
        node.run(["ls", "/srv/models/x"])


def test_the_machines_own_disk_is_never_filled(pair: tuple[LabNode, LabNode]) -> None:
    with pytest.raises(LabSpecError, match="small disk"), pair[0].filled("/srv"):
        pytest.fail("it was filled")


def test_an_engine_on_a_small_disk_begins_with_nothing_and_has_its_own_back_after(
    pair: tuple[LabNode, LabNode], run_container: RunContainer
) -> None:
    _, node = pair
    run_container(node, ["/usr/bin/true"])
    images = set(node.run(["docker", "images", "--quiet"]).split())
    with node.small_disk(disks.ENGINE_DATA, 64):
        assert node.run(["docker", "images", "--quiet"]) == ""
        full = node.filled(disks.ENGINE_DATA)
        with full, pytest.raises(LabCommandError, match="no space left"):
            node.run(["docker", "import", "/run/tree.tar", "other"])
    # A set: the engine puts images of one age in no certain order.
    assert set(node.run(["docker", "images", "--quiet"]).split()) == images


def test_a_stalled_sshd_says_nothing_until_it_goes_on(pair: tuple[LabNode, LabNode]) -> None:
    one, other = pair
    with other.stalled_sshd():
        assert knocks(one, other, timeout_s=1) == -1
    assert knocks(one, other) >= 0


def test_a_container_removed_by_hand_is_gone_and_a_restarted_engine_answers(
    pair: tuple[LabNode, LabNode], run_container: RunContainer
) -> None:
    _, node = pair
    for name in ("first", "second"):
        run_container(node, ["/usr/bin/sleep", "600"], "--detach", f"--name={name}")
    node.remove_container("first")
    listing = ["docker", "ps", "--all", "--format", "{{.Names}}"]
    assert {"first", "second"} & set(node.run(listing).split()) == {"second"}
    node.restart_engine()
    assert "second" not in node.run(listing).split()  # it was run with --rm


def test_a_power_cut_ends_small_disks_and_nothing_can_be_done_to_a_node_that_is_off(
    pair: tuple[LabNode, LabNode],
) -> None:
    _, node = pair
    with node.small_disk("/srv/models", 4):
        node.run(["touch", "/srv/models/lost"])
        node.power_off()
        node.power_on()
        with pytest.raises(LabCommandError, match="No such file"):
            node.run(["ls", "/srv/models/lost"])
    node.power_off()
    with pytest.raises(NodeOffError), node.stalled_sshd():
        pytest.fail("it is off")
