"""The nodes of a running lab, and what a test can do to them."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.progress import Silent
from deploy.lab import nodes
from deploy.lab.control import LabNode
from deploy.lab.errors import LabCommandError, NodeOffError, NodeStartError
from deploy.lab.lifecycle import lab_status, lab_up
from deploy.lab.runtime import may_raise_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deploy.lab.lifecycle import LabState

    RunContainer = Callable[..., str]

pytestmark = pytest.mark.lab
HCA = "rocep1s0f0"
SYSFS = f"/sys/class/infiniband/{HCA}"


@pytest.fixture
def spark_b(lab: LabState) -> Iterator[LabNode]:
    """One node to break; the lab is mended afterwards."""
    yield LabNode(lab.spec, "spark-b")
    lab_up(lab.spec, Silent())


@pytest.fixture
def spark_a(lab: LabState) -> LabNode:
    """One node to look at."""
    return LabNode(lab.spec, "spark-a")


def problems(lab: LabState) -> dict[str, str]:
    return {node.name: node.problem for node in lab_status(lab.spec).nodes}


def test_ssh_lands_inside_the_node(spark_a: LabNode) -> None:
    assert spark_a.run(["hostname"]) == "spark-a\n"
    assert spark_a.run(["cat", "/proc/1/cmdline"]).split("\0")[1:3] == [
        "-m",
        "deploy.lab.node_init",
    ]
    assert spark_a.run(["hostname", "-I"]).split()[:2] == [
        str(half.address) for half in spark_a.node.halves
    ]


def test_docker_there_is_the_distributions_client_with_the_nodes_own_engine(
    spark_a: LabNode, spark_b: LabNode
) -> None:
    assert spark_a.run(["which", "docker"]) == "/usr/bin/docker\n"
    info = [
        json.loads(n.run(["docker", "info", "--format", "{{json .}}"])) for n in (spark_a, spark_b)
    ]
    assert [i["Name"] for i in info] == ["spark-a", "spark-b"]
    assert info[0]["ID"] != info[1]["ID"]
    assert {i["CgroupDriver"] for i in info} == {"cgroupfs"}


def test_the_environment_there_names_no_other_engine(spark_a: LabNode) -> None:
    assert "DOCKER_HOST" not in spark_a.run(["env"])


@pytest.mark.parametrize("half", [0, 1])
def test_nodes_reach_each_other_with_whole_jumbo_frames(
    spark_a: LabNode, spark_b: LabNode, half: int
) -> None:
    # ICMP echo over a raw socket, as ping is not on every machine; 8972 + 8 + 20 bytes = 9000
    program = """if True:
        import socket, struct, sys
        body = bytes(8972)
        head = struct.pack("!BBHHH", 8, 0, 0xF7FF - 1, 0, 1)
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        raw.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER = IP_PMTUDISC_DO
        raw.settimeout(5)
        raw.sendto(head + body, (sys.argv[1], 0))
        answer, sender = raw.recvfrom(10000)
        print(sender[0], answer[20], len(answer))
    """
    there = str(spark_b.node.halves[half].address)
    answer = spark_a.run(["/usr/bin/python3", "-c", program, there])
    assert answer.split() == [there, "0", "9000"]


def test_the_halves_do_not_see_each_others_network(spark_a: LabNode) -> None:
    first, second = spark_a.spec.node("spark-b").halves
    neighbours = f"ip neigh show to {first.address} dev {spark_a.node.halves[1].netdev}"
    assert spark_a.run(neighbours.split()) == ""
    assert second.address not in spark_a.spec.networks[0]


def test_a_container_runs_with_the_nodes_network_and_the_machines_interpreter(
    spark_a: LabNode, run_container: RunContainer
) -> None:
    program = "import socket; print(socket.gethostname())"
    assert run_container(spark_a, ["/usr/bin/python3", "-c", program]) == "spark-a\n"


def test_a_container_that_wants_rdmas_limits_starts_and_has_what_the_machine_may_give(
    spark_a: LabNode, run_container: RunContainer
) -> None:
    wanted = ("--ulimit=memlock=-1", "--ulimit=nofile=1048576")
    program = (
        "import resource as r; print(r.getrlimit(r.RLIMIT_MEMLOCK), r.getrlimit(r.RLIMIT_NOFILE))"
    )
    given = run_container(spark_a, ["/usr/bin/python3", "-c", program], *wanted)
    if may_raise_limits():
        assert given == "(-1, -1) (1048576, 1048576)\n"
    else:
        hard = [
            resource.getrlimit(kind)[1]
            for kind in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE)
        ]
        assert given == f"{(hard[0], hard[0])} {(hard[1], hard[1])}\n"


def test_what_a_node_writes_stays_in_the_node(spark_a: LabNode) -> None:
    for folder in ("/etc", "/var/lib", "/tmp", "/srv", "/root", "/run"):  # noqa: S108
        path = Path(folder, "sparklock-was-here")
        spark_a.run(["touch", str(path)])
        assert not path.exists()
        spark_a.run(["rm", str(path)])
    for folder in ("/usr/bin", "/opt", "/home"):
        with pytest.raises(LabCommandError, match="Read-only file system"):
            spark_a.run(["touch", f"{folder}/sparklock-was-here"])


def test_the_node_sees_its_ports_and_what_becomes_of_them(spark_b: LabNode) -> None:
    def read(name: str) -> str:
        return spark_b.run(["cat", f"{SYSFS}/ports/1/{name}"]).strip()

    assert read("state") == "4: ACTIVE"
    assert read("gids/3") == spark_b.node.halves[0].ipv4_gid
    assert spark_b.run(["ls", f"{SYSFS}/device/net"]).split() == ["enp1s0f0np0"]
    before = int(read("counters/port_xmit_data"))

    spark_b.set_port_state(HCA, "1: DOWN")
    spark_b.set_port_file(HCA, "rate", "100 Gb/sec (1X NDR)")
    spark_b.add_counters(HCA, {"port_xmit_data": 1000})
    spark_b.remove_hca("roceP2p1s0f0")
    assert read("state") == "1: DOWN"
    assert read("rate") == "100 Gb/sec (1X NDR)"
    assert int(read("counters/port_xmit_data")) == before + 1000
    assert spark_b.run(["ls", "/sys/class/infiniband"]).split() == [HCA]

    spark_b.restore_fabric()
    assert read("state") == "4: ACTIVE"
    assert len(spark_b.run(["ls", "/sys/class/infiniband"]).split()) == 2


def test_sysfs_shows_the_nodes_own_network_devices(spark_a: LabNode) -> None:
    assert set(spark_a.run(["ls", "/sys/class/net"]).split()) == {
        "lo",
        *(half.netdev for half in spark_a.node.halves),
    }
    assert spark_a.run(["cat", "/sys/class/net/enp1s0f0np0/mtu"]) == "9000\n"


def test_a_stopped_engine_is_a_problem_of_its_node_only_and_starts_again(
    lab: LabState, spark_b: LabNode
) -> None:
    spark_b.stop_engine()
    found = problems(lab)
    assert found["spark-a"] == ""
    assert "Cannot connect to the Docker daemon" in found["spark-b"]
    spark_b.start_engine()
    assert problems(lab)["spark-b"] == ""


def test_a_crashed_engine_leaves_its_containers_running(
    spark_b: LabNode, run_container: RunContainer
) -> None:
    run_container(spark_b, ["/usr/bin/sleep", "600"], "--detach")
    spark_b.stop_engine(crash=True)
    assert spark_b.run(["pgrep", "-x", "sleep"])
    spark_b.start_engine()
    spark_b.run(["docker", "info"])


def test_an_engine_stopped_in_order_takes_its_containers_with_it(
    spark_b: LabNode, run_container: RunContainer
) -> None:
    run_container(spark_b, ["/usr/bin/sleep", "600"], "--detach")
    spark_b.stop_engine()
    with pytest.raises(LabCommandError, match="pgrep"):
        spark_b.run(["pgrep", "-x", "sleep"])


def test_without_sshd_the_node_is_on_but_refuses(lab: LabState, spark_b: LabNode) -> None:
    spark_b.stop_sshd()
    assert "Connection refused" in problems(lab)["spark-b"]
    spark_b.start_sshd()
    assert problems(lab)["spark-b"] == ""


def test_a_changed_host_key_is_refused_by_ssh(spark_b: LabNode) -> None:
    spark_b.change_host_key()
    with pytest.raises(LabCommandError, match="HOST IDENTIFICATION HAS CHANGED") as caught:
        spark_b.run(["true"])
    assert caught.value.status == 255
    spark_b.restore_host_key()
    spark_b.run(["true"])


def test_a_power_cut_ends_everything_and_keeps_the_disk(
    lab: LabState, spark_b: LabNode, run_container: RunContainer
) -> None:
    spark_b.run(["touch", "/srv/kept", "/run/lost"])
    run_container(spark_b, ["/usr/bin/sleep", "600"], "--detach")
    spark_b.power_off()
    assert problems(lab) == {"spark-a": "", "spark-b": "off"}
    with pytest.raises(NodeOffError):
        spark_b.stop_engine()
    spark_b.power_on()
    assert spark_b.run(["ls", "/srv/kept"]) == "/srv/kept\n"
    assert spark_b.run(["docker", "images", "-q", "text"])
    with pytest.raises(LabCommandError, match="No such file"):
        spark_b.run(["ls", "/run/lost"])


def test_up_restarts_only_the_node_that_is_not_well(lab: LabState, spark_b: LabNode) -> None:
    before = {node.name: node.pid for node in lab_status(lab.spec).nodes}
    spark_b.stop_engine(crash=True)
    after = {node.name: node.pid for node in lab_up(lab.spec, Silent()).nodes}
    assert after["spark-a"] == before["spark-a"]
    assert after["spark-b"] != before["spark-b"]


def test_up_leaves_a_healthy_lab_alone(lab: LabState) -> None:
    before = lab_status(lab.spec)
    assert lab_up(lab.spec, Silent()) == before


def test_an_engine_that_cannot_start_is_told_with_the_end_of_its_log(spark_b: LabNode) -> None:
    spark_b.power_off()
    in_the_way = spark_b.node.folder / "docker" / "containers"
    in_the_way.rename(in_the_way.with_name("kept"))
    in_the_way.write_text("")
    try:
        with pytest.raises(NodeStartError) as caught:
            spark_b.power_on()
        assert caught.value.exit_code == 5
        assert "engine ended with status 1" in str(caught.value)
        assert "containers: not a directory" in str(caught.value)
    finally:
        in_the_way.unlink()
        in_the_way.with_name("kept").rename(in_the_way)


def test_processes_of_the_lab_are_all_in_its_namespaces(spark_a: LabNode) -> None:
    record = nodes.running(spark_a.node.folder / "init.json")
    assert record is not None
    for kind in ("net", "mnt", "uts", "ipc", "pid"):
        own = Path(f"/proc/{record.pid}/ns/{kind}").readlink()
        assert own != Path(f"/proc/self/ns/{kind}").readlink()
