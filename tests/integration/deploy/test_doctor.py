"""`inv doctor` on real nodes: what is broken on purpose is found, where it is, and no more."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from builder import pipeline as builder
from builder.progress import Silent
from deploy.doctor import doctor
from deploy.errors import PreflightError
from deploy.lab import network, nodes
from deploy.weights_run import weights
from tests.integration.deploy.conftest import NODES, PORT, own_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from deploy.doctor_report import DoctorReport
    from tests.integration.deploy.conftest import Cluster

pytestmark = pytest.mark.lab

A, B = NODES
FIRST, SECOND = "enp1s0f0np0", "enP2p1s0f0np0"
SHM, RAYLET = "/dev/shm/nccl-left", "/tmp/raylet"  # noqa: S108 - in a node's own memory
HOLD_PORT = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
sys.stdin.read()
"""


def told(report: DoctorReport) -> list[tuple[str, str, str]]:
    """Level, place and what is wrong, of every finding."""
    return [(item.level.name, item.message.place, item.message.what) for item in report.findings]


@contextmanager
def undone(cluster: Cluster, node: str, do: str, undo: str) -> Iterator[None]:
    """Something done on a node with `ip` or `iptables`, for as long as the block lasts."""
    cluster.node(node).run(do.split())
    try:
        yield
    finally:
        cluster.node(node).run(undo.split())


def test_a_healthy_pair_is_fit_serving_or_not_and_ends_with_0(cluster: Cluster) -> None:
    assert told(doctor(cluster.file)) == []
    cluster.deploy()
    argv = [sys.executable, "-m", "invoke", "doctor", "--json", "--file", str(cluster.file)]
    done = subprocess.run(argv, cwd=cluster.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: Any = json.loads(done.stdout)
    assert report["findings"] == []
    assert [node["node"] for node in report["nodes"]] == list(NODES)
    facts = report["nodes"][0]["facts"]
    assert facts["to the peers"] == "2 of 2 ways at full MTU and open"
    assert facts["RDMA 1"] == "rocep1s0f0 ACTIVE, 200 Gbit/s, PCIe x4, GID 3"


def test_an_mtu_that_differs_is_found_by_its_number_and_by_lost_packets(cluster: Cluster) -> None:
    mtu = f"ip link set {SECOND} mtu"
    with undone(cluster, B, f"{mtu} 1500", f"{mtu} 9000"):
        found = told(doctor(cluster.file))
    assert found[0] == ("ERROR", f"node {B}, {SECOND}", "the interface has another MTU")
    assert {(level, what) for level, _, what in found[1:]} == {
        ("ERROR", "packets of full size do not arrive, small ones do")
    }
    assert len(found) == 3


def test_a_switch_that_carries_less_is_found_though_both_ends_are_right(cluster: Cluster) -> None:
    """Here the far end of a node's link stands for the switch."""
    spec = cluster.lab.spec
    hub = nodes.running(nodes.hub_record(spec))
    assert hub is not None
    port = network.port_name(spec.node(A), 1)
    network.run_ip([f"link set {port} mtu 1500"], namespace_of=hub.pid)
    try:
        found = told(doctor(cluster.file))
    finally:
        network.run_ip([f"link set {port} mtu 9000"], namespace_of=hub.pid)
    assert {(level, what) for level, _, what in found} == {
        ("ERROR", "packets of full size do not arrive, small ones do")
    }


def test_a_firewall_is_found_and_stops_a_deploy(cluster: Cluster) -> None:
    address = cluster.lab.spec.node(B).address
    rule = f"INPUT -i {FIRST} -s {address} -p tcp --syn -j DROP"
    with undone(cluster, A, f"iptables -I {rule}", f"iptables -D {rule}"):
        (error,) = doctor(cluster.file).findings
        assert error.message.what.endswith("a firewall")
        assert error.message.place.startswith(f"node {B} to {A}")
        assert f"port {PORT + 1}: no answer in time" in error.message.found
        with pytest.raises(PreflightError, match="a firewall"):
            cluster.deploy()
    assert cluster.containers() == {name: [] for name in NODES}


def test_an_address_that_is_missing_makes_its_ways_unknown_or_lost(cluster: Cluster) -> None:
    address = cluster.lab.spec.node(B).halves[1].address
    change = f"{address}/24 dev {SECOND}"
    with undone(cluster, B, f"ip addr del {change}", f"ip addr add {change}"):
        found = told(doctor(cluster.file))
    assert found[0] == ("ERROR", f"node {B}, {SECOND}", "the interface does not have its address")
    assert {level for level, place, _ in found if place.endswith(str(address))} <= {
        "ERROR", "UNKNOWN"
    }  # fmt: skip
    assert len(found) == 3


def test_what_sysfs_tells_of_the_devices_is_found(cluster: Cluster) -> None:
    node = cluster.node(B)
    node.set_port_state("rocep1s0f0", "1: DOWN")
    node.set_device_file("roceP2p1s0f0", "fw_ver", "28.42.1000")
    node.set_device_file("rocep1s0f0", "fw_ver", "28.42.1000")
    node.set_device_file("roceP2p1s0f0", "device/current_link_width", "2")
    node.set_port_file("roceP2p1s0f0", "gid_attrs/types/3", "IB/RoCE v1")
    try:
        found = told(doctor(cluster.file))
    finally:
        node.restore_fabric()
    assert found == [
        ("ERROR", f"node {B}, rocep1s0f0", "the RoCE port is not up"),
        ("WARNING", f"node {B}, roceP2p1s0f0", "its PCIe link is slower than a Spark's"),
        ("ERROR", f"node {B}, roceP2p1s0f0", "the device has no RoCE v2 GID of its address"),
        ("WARNING", f"nodes {A} and {B}", "the nodes differ in their NIC firmware"),
        ("NOTE", f"node {B}", "the NIC's firmware is not the one that most working pairs have"),
    ]


def test_who_holds_the_port_is_named(cluster: Cluster) -> None:
    argv = [
        *("ssh", "-F", str(cluster.lab.spec.ssh_config), A, "--"),
        shlex.join(("/usr/bin/python3", "-c", HOLD_PORT, str(PORT))),
    ]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert b"listening" in holder.stdout.readline()
        (found,) = doctor(cluster.file).findings
        holder.communicate()
    assert found.message.place == f"node {A}, TCP port {PORT}"
    assert "python3 (process " in found.message.found


def test_ports_of_another_cluster_are_named_as_that_clusters(served: Cluster) -> None:
    """The same manifest under another name is another cluster, as far as the nodes know."""
    text, name = served.file.read_text(), served.folder.name
    served.file.write_text(text.replace(f'name = "{name}"', 'name = "another"'))
    try:
        builder.lock(served.file, Silent())
        found = told(doctor(served.file))
    finally:
        served.file.write_text(text)
    what = f"the sparklock cluster {name} listens on the port"
    assert found == [("ERROR", f"node {A}, TCP port {port}", what) for port in (PORT, PORT + 1)]


def test_a_disk_too_small_for_the_model_is_found(cluster: Cluster) -> None:
    folder = f"/srv/models/{cluster.folder.name}"
    cluster.node(B).run(["mkdir", "-p", folder])
    small = f"mount -t tmpfs -o size=8k none {folder}"
    with undone(cluster, B, small, f"umount {folder}"):
        (found,) = doctor(cluster.file).findings
    assert found.message.place == f"node {B}"
    assert found.message.what == "too little free space for the model"


def test_what_other_launchers_have_left_is_found_beside_a_pair_that_serves(
    served: Cluster,
) -> None:
    node = served.node(B)
    ((_, rank),) = served.containers()[B]
    image = node.run(["docker", "inspect", "--format", "{{.Image}}", rank]).strip()
    node.run(["docker", "create", "--name", "vllm_node", image, "true"])
    node.run(["truncate", "--size=4096", SHM])
    node.run(["cp", "/usr/bin/sleep", RAYLET])
    pid = node.run(["sh", "-c", f"{RAYLET} 300 >/dev/null 2>&1 & echo $!"]).strip()
    try:
        report = doctor(served.file)
    finally:
        node.run(["kill", pid])
        node.run(["rm", SHM])
        node.run(["docker", "rm", "vllm_node"])
    assert [(item.level.name, item.nodes, item.message.found) for item in report.findings] == [
        ("WARNING", (B,), "vllm_node"),
        ("WARNING", (B,), f"raylet ({pid})"),
        ("WARNING", (B,), "4.1 kB: nccl-left"),
    ]
    assert report.exit_code == 0


def test_all_nodes_are_shown_when_one_cannot_be_reached_and_when_none_can(cluster: Cluster) -> None:
    node = cluster.node(B)
    node.change_host_key()
    try:
        report = doctor(cluster.file)
    finally:
        node.restore_host_key()
    assert told(report) == [("ERROR", f"node {B}", "the host key of the node has changed")]
    assert report.table[0].cells == ("reached", "")
    node.stop_engine()
    silent = doctor(cluster.file)
    node.start_engine()
    assert told(silent) == [("ERROR", f"node {B}", "there is no Docker socket")]
    assert silent.table[0].cells == ("reached", "reached")
    for name in NODES:
        cluster.node(name).stop_sshd()
    nobody = doctor(cluster.file)
    assert [item.nodes for item in nobody.findings] == [(A,), (B,)]
    assert nobody.exit_code == 5


def test_without_a_lock_all_but_image_and_model_is_looked_at(cluster: Cluster) -> None:
    (cluster.folder / "lockfile.json").unlink()
    report = doctor(cluster.file)
    assert [(item.level.name, item.row) for item in report.findings] == [("UNKNOWN", "lock")]
    assert "to the peers" in {row.name for row in report.table}
    assert report.exit_code == 0


def test_files_under_another_clusters_running_pair_are_not_replaced(
    cluster: Cluster, lab_root: Path, tmp_path: Path
) -> None:
    cluster.deploy()
    folder = f"/srv/models/{cluster.file.parent.name}"
    before = cluster.node(B).run(["cat", f"{folder}/config.json"])
    with own_cluster(cluster.lab, lab_root, tmp_path, "shares a model") as other:
        config = other.folder / "examples/lab/model/config.json"
        config.write_text(f"{config.read_text()} ")
        other.change("serve", port=PORT + 20, master_port=PORT + 21)
        other.change("model", path=folder)
        for refused in (other.deploy, partial(weights, other.file, Silent())):
            with pytest.raises(PreflightError, match="replaced under a container"):
                refused()
    assert cluster.node(B).run(["cat", f"{folder}/config.json"]) == before
    cluster.deploy()  # it still answers
