"""Observation against a host that answers from a table, as testinfra's would."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.verify import samples
from verify.errors import (
    FactCommandError,
    NoContainerError,
    NodesNotReadyError,
    UnreachableNodeError,
)
from verify.observe import ObservedCluster, ObservedNode

if TYPE_CHECKING:
    from pathlib import Path

    from builder.manifest import Node

CLUSTER = samples.expected()
INSPECTED = json.dumps([samples.container_document(0)])
TWO = json.dumps([samples.container_document(0), samples.container_document(1)])


@dataclass(frozen=True)
class Answer:
    """A CommandResult."""

    stdout: str = ""
    rc: int = 0
    stderr: str = ""

    @property
    def stdout_bytes(self) -> bytes:
        return self.stdout.encode()

    @property
    def stderr_bytes(self) -> bytes:
        return self.stderr.encode()


@dataclass
class TableHost:
    """A Host: the answer is the first whose words all occur in the command."""

    answers: dict[str, Answer | Exception]
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, command: str, *args: str) -> Answer:
        assert command.split() == ["%s"] * len(args)
        self.asked.append(args)
        for words, answer in self.answers.items():
            if set(words.split()) <= set(args):
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return Answer(rc=127, stderr=f"{args}: not found")


def node(answers: dict[str, Answer | Exception]) -> tuple[ObservedNode, TableHost]:
    host = TableHost(answers)
    return ObservedNode(CLUSTER.head, CLUSTER, host, "/run/docker.sock"), host


def test_commands_have_a_deadline_on_the_node() -> None:
    observed, host = node({"date": Answer("2026-01-02T03:04:05.6Z\n")})
    assert observed.now() == "2026-01-02T03:04:05.6Z"
    assert host.asked[0][:3] == ("timeout", "--kill-after=5", "120")


def test_a_failed_command_is_an_error_with_its_output() -> None:
    observed, _ = node({"ip": Answer(rc=1, stderr="no such option -json")})
    with pytest.raises(FactCommandError, match="no such option"):
        _ = observed.netdevs


def test_a_command_that_did_not_end_in_time_says_so() -> None:
    observed, _ = node({"ip": Answer(rc=124)})
    with pytest.raises(FactCommandError, match="no end within 120 s"):
        _ = observed.netdevs


def test_a_lost_connection_is_a_fault_of_the_node_and_no_failed_check() -> None:
    observed, _ = node({"ip": RuntimeError("mux_client_request_session: read from master failed")})
    with pytest.raises(UnreachableNodeError, match="spark-a") as caught:
        _ = observed.netdevs
    assert caught.value.exit_code == 5


def test_the_one_container_with_the_cluster_s_label_is_found_and_read_once() -> None:
    observed, host = node({"ps": Answer("abc\n"), "inspect": Answer(INSPECTED)})
    assert observed.container.name == "sparklock-lab-g3-r0"
    assert observed.container.name == "sparklock-lab-g3-r0"
    assert len(host.asked) == 2
    assert "label=io.sparklock.cluster=lab" in host.asked[0]
    assert "unix:///run/docker.sock" in host.asked[0]


@pytest.mark.parametrize(("ids", "names"), [("", "none"), ("a b", "sparklock-lab-g3-r0, ")])
def test_no_container_and_two_containers_are_no_ground_to_judge_on(ids: str, names: str) -> None:
    observed, _ = node({"ps": Answer(ids), "inspect": Answer(TWO)})
    with pytest.raises(NoContainerError, match=names):
        _ = observed.container


def test_an_absent_device_is_seen_as_absent_and_unreadable_slots_do_not_matter() -> None:
    path = "/sys/class/infiniband/rocep1s0f1/ports/1/state"
    observed, _ = node({"grep": Answer(f"{path}:4: ACTIVE\n", rc=2)})
    assert observed.rdma_ports["rocep1s0f1"].state == "4: ACTIVE"
    assert observed.rdma_ports["roceP2p1s0f1"].state == ""


def test_a_node_without_grep_is_an_error_and_not_an_absent_device() -> None:
    observed, _ = node({})
    with pytest.raises(FactCommandError):
        _ = observed.rdma_ports


class ThisMachine:
    """A Host whose commands run here."""

    def run(self, command: str, *args: str) -> Answer:
        assert command.split() == ["%s"] * len(args)
        done = subprocess.run(args, capture_output=True, text=True, check=False)
        return Answer(done.stdout, done.returncode, done.stderr)


@pytest.mark.parametrize("programs", ["all", "no openssl"])
def test_model_files_that_cannot_be_read_are_absent_and_the_others_are_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: str
) -> None:
    if programs != "all":
        (tmp_path / "bin").mkdir()
        for name in ("sh", "timeout", "xargs", "nproc", "printf", "sha256sum"):
            (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    names = ("a", "with space", "-n", "a'b\"c$(d)\\x")
    for name in names:
        (tmp_path / name).write_text(name)
    paths = [str(tmp_path / name) for name in (*names, "gone")]
    files = dict.fromkeys(paths, "")
    observed = ObservedNode(
        replace(CLUSTER.head, model_files=files), CLUSTER, ThisMachine(), "/run/docker.sock"
    )
    assert observed.model_sha256 == {
        str(tmp_path / name): hashlib.sha256(name.encode()).hexdigest() for name in names
    }


def test_the_inside_is_asked_for_everything_the_lock_and_the_manifest_name() -> None:
    facts = {"paths": {}, "processes": [], "tcp": "", "tcp6": ""}
    verbs = "/sys/class/infiniband_verbs/uverbs2"
    observed, host = node(
        {
            "ps": Answer("abc"),
            "inspect": Answer(INSPECTED),
            "exec": Answer(json.dumps(facts)),
            "find": Answer(f"{verbs}\n"),
            "grep": Answer(f"{verbs}/ibdev:rocep1s0f1\n"),
        }
    )
    assert observed.rdma_files == {"rocep1s0f1": "/dev/infiniband/uverbs2", "roceP2p1s0f1": ""}
    assert observed.inside.processes == ()
    asked = set(host.asked[-1])
    assert {*samples.healthy_paths(), "/dev/infiniband/uverbs2"} - {"/dev/infiniband"} <= asked
    assert {"docker", "exec", "ab" * 32, "python3"} <= asked


def test_log_lines_come_from_both_streams() -> None:
    observed, _ = node(
        {
            "ps": Answer("abc"),
            "inspect": Answer(INSPECTED),
            "logs": Answer("x NCCL INFO Using network IB\n", stderr="y NCCL INFO NCCL version 9\n"),
        }
    )
    assert (observed.nccl.transport, observed.nccl.version) == ("IB", "9")


def test_an_unreadable_log_is_an_error_and_not_a_log_without_nccl() -> None:
    observed, _ = node(
        {
            "ps": Answer("abc"),
            "inspect": Answer(INSPECTED),
            "logs": Answer(rc=1, stderr="configured logging driver does not support reading"),
        }
    )
    with pytest.raises(FactCommandError, match="does not support reading"):
        _ = observed.nccl


def cluster(answers: dict[str, dict[str, Answer | Exception]]) -> ObservedCluster:
    def host_of(of: Node) -> TableHost:
        return TableHost(answers[of.name])

    return ObservedCluster(CLUSTER, samples.manifest().nodes, host_of)


def test_facts_of_all_nodes_come_by_name() -> None:
    found = cluster({"spark-a": {"date": Answer("1")}, "spark-b": {"date": Answer("2")}})
    assert found.each(lambda item: item.now()) == {"spark-a": "1", "spark-b": "2"}


def test_every_node_that_cannot_be_checked_is_named_at_once() -> None:
    found = cluster(
        {
            "spark-a": {"version": Answer(rc=1, stderr="Cannot connect to the Docker daemon")},
            "spark-b": {"version": RuntimeError("ssh: connection lost")},
        }
    )
    with pytest.raises(NodesNotReadyError) as caught:
        found.probe()
    assert [message.place for message in caught.value.messages] == ["node spark-a", "node spark-b"]
    assert caught.value.exit_code == 5


def test_nodes_that_answer_are_ready() -> None:
    version: dict[str, Answer | Exception] = {"version": Answer("29.1.3")}
    cluster({"spark-a": version, "spark-b": version}).probe()
