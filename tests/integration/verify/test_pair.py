"""A real pair in the lab: what is broken on purpose fails its own check, and no other."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder import pipeline
from builder.errors import LockError
from builder.progress import Silent
from tests.integration.verify.conftest import NOT_SHOWN_IN_THE_LAB, names, not_passed
from verify.edges.process import run_pytest
from verify.errors import NodesNotReadyError, NothingSelectedError, UnprovenError
from verify.report import Outcome
from verify.run import run_checks

if TYPE_CHECKING:
    from tests.integration.verify.conftest import Pair

pytestmark = pytest.mark.lab

HCA = "rocep1s0f0"
SITE = "/usr/local/lib/python3.12/dist-packages/vllm"


def test_a_healthy_pair_passes_and_the_report_names_the_lock(pair: Pair, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    report = run_checks(pair.manifest_path, progress=Silent(), junit_path=junit)
    report.require_passed()
    assert report.nodes == ("spark-a", "spark-b")
    not_applicable = {name.partition("[")[0] for name in names(report, Outcome.NOT_APPLICABLE)}
    assert not_applicable - {"container.locked_memory"} == NOT_SHOWN_IN_THE_LAB
    assert json.loads(json.dumps(report.as_json()))["lock_digest"] == report.lock_digest
    cases = ET.parse(junit).getroot().iter("testcase")  # noqa: S314 - pytest wrote it just now
    assert len(list(cases)) == len(report.checks)


def test_equal_facts_give_equal_reports(pair: Pair) -> None:
    only = "image or fabric or model"
    first, second = (json.dumps(pair.verify(only).as_json()) for _ in range(2))
    assert first == second


def test_a_port_that_is_down_fails_its_state_and_only_it(pair: Pair) -> None:
    pair.node("spark-b").set_port_state(HCA, "1: DOWN")
    report = pair.verify()
    assert not_passed(report) == {f"fabric.port_is_active[spark-b-{HCA}]"}
    with pytest.raises(UnprovenError, match="DOWN") as caught:
        report.require_passed()
    (message,) = caught.value.messages
    assert message.place == f"node spark-b, rank 1, {HCA}"


@pytest.mark.parametrize(
    ("name", "text", "check"),
    [
        ("phys_state", "2: Polling", "link_is_up"),
        ("rate", "100 Gb/sec (2X HDR)", "rate"),
        ("link_layer", "InfiniBand", "link_layer"),
        ("gid_attrs/types/3", "IB/RoCE v1", "gid"),
        ("gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001", "gid"),
    ],
)
def test_each_other_fault_of_a_port_fails_its_own_check(
    pair: Pair, name: str, text: str, check: str
) -> None:
    pair.node("spark-a").set_port_file(HCA, name, text)
    assert not_passed(pair.verify("fabric")) == {f"fabric.{check}[spark-a-{HCA}]"}


def test_a_device_that_is_gone_fails_all_that_is_said_of_it(pair: Pair) -> None:
    pair.node("spark-a").remove_hca(HCA)
    of_device = ("port_is_active", "link_is_up", "link_layer", "rate", "netdev", "gid")
    assert not_passed(pair.verify("fabric")) == {
        *(f"fabric.{check}[spark-a-{HCA}]" for check in of_device),
        "fabric.firmware_agrees",
    }


def test_a_gid_that_moved_is_found_at_its_new_index(pair: Pair) -> None:
    node = pair.node("spark-a")
    node.set_port_file(
        HCA, "gids/6", node.run(["cat", f"/sys/class/infiniband/{HCA}/ports/1/gids/3"]).strip()
    )
    node.set_port_file(HCA, "gid_attrs/types/6", "RoCE v2")
    node.set_port_file(HCA, "gid_attrs/ndevs/6", "enp1s0f0np0")
    node.set_port_file(HCA, "gid_attrs/types/3", "IB/RoCE v1")
    (check,) = pair.verify(f"fabric.gid and {HCA} and spark-a").checks
    assert check.outcome is Outcome.PASSED
    assert check.evidence[0].startswith("RoCE v2 GID index 6:")


def test_another_mtu_fails_its_check(pair: Pair) -> None:
    node = pair.node("spark-b")
    node.run(["ip", "link", "set", "enP2p1s0f0np0", "mtu", "1500"])
    try:
        assert not_passed(pair.verify("fabric")) == {"fabric.mtu[spark-b-roceP2p1s0f0]"}
    finally:
        node.run(["ip", "link", "set", "enP2p1s0f0np0", "mtu", "9000"])


def test_a_grafted_file_changed_in_the_running_container_is_found(disposable_pair: Pair) -> None:
    path = f"{SITE}/model_executor/models/tiny_spark.py"
    disposable_pair.inside("spark-b", "sh", "-c", f"echo '# changed' >> {path}")
    report = disposable_pair.verify("image")
    assert not_passed(report) == {"image.files[spark-b]"}
    assert path in report.failures[0].what


def test_a_node_script_that_is_not_executable_is_found(disposable_pair: Pair) -> None:
    disposable_pair.inside("spark-a", "chmod", "-x", "/workspace/vllm/run-cluster-node.sh")
    report = disposable_pair.verify("image")
    assert not_passed(report) == {"image.executables[spark-a]"}
    assert "not executable" in report.failures[0].found


def test_other_weights_on_one_node_are_found(pair: Pair) -> None:
    node = pair.node("spark-b")
    path = "/srv/models/tiny-spark/model.safetensors"
    node.run(["sh", "-c", f"printf x | dd of={path} conv=notrunc status=none"])
    report = pair.verify("model")
    assert not_passed(report) == {"model.files[spark-b]"}
    assert path in report.failures[0].what


def test_a_frozen_rank_fails_the_completion_while_the_server_still_answers(pair: Pair) -> None:
    node = pair.node("spark-b")
    node.run(["docker", "exec", pair.container("spark-b"), *signal_worker("STOP")])
    try:
        report = pair.verify("serving")
    finally:
        node.run(["docker", "exec", pair.container("spark-b"), *signal_worker("CONT")])
    assert names(report, Outcome.FAILED) == {"serving.completion"}
    of_an_answer = {"serving.fingerprint", "serving.same_answer", "serving.two_at_once"}
    assert names(report, Outcome.ERROR) == of_an_answer
    assert "serving.server_answers" in names(report, Outcome.PASSED)
    assert any("the deadline is over" in message.found for message in report.failures)


def signal_worker(name: str) -> list[str]:
    program = (
        "import os, pathlib, signal\n"
        "for p in pathlib.Path('/proc').glob('[0-9]*/cmdline'):\n"
        "    if p.read_bytes().startswith(b'VLLM::Worker'):\n"
        f"        os.kill(int(p.parent.name), signal.SIG{name})\n"
    )
    return ["python3", "-c", program]


def test_a_rank_that_is_gone_leaves_nothing_to_judge_and_nothing_passes_for_it(pair: Pair) -> None:
    pair.node("spark-b").run(["docker", "stop", "--time", "1", pair.container("spark-b")])
    report = pair.verify("(image or container) and spark-b")
    assert {item.outcome for item in report.checks} == {Outcome.ERROR}
    (message,) = report.failures
    assert message.place == "node spark-b"
    assert message.remedy == "inv deploy"
    serving = pair.verify("serving")
    assert "serving.completion" in names(serving, Outcome.FAILED)


def test_a_container_of_another_lock_is_found_though_the_image_is_the_same(pair: Pair) -> None:
    original = pair.manifest_path.read_text()
    pair.manifest_path.write_text(original.replace("max-model-len = 256", "max-model-len = 128"))
    try:
        with pytest.raises(LockError, match="stale") as caught:
            pair.verify()
        assert caught.value.exit_code == 3
        lock_again(pair)
        failed = not_passed(pair.verify("image or container"))
    finally:
        pair.manifest_path.write_text(original)
        lock_again(pair)
    assert failed == {"container.command[spark-a]", "container.command[spark-b]"}


def lock_again(pair: Pair) -> None:
    pipeline.lock(pair.manifest_path, Silent())


def test_a_node_that_cannot_be_reached_is_named_and_no_check_failed(pair: Pair) -> None:
    pair.node("spark-b").stop_sshd()
    with pytest.raises(NodesNotReadyError, match="spark-b") as caught:
        pair.verify()
    assert caught.value.exit_code == 5
    assert len(caught.value.messages) == 1


def test_an_engine_that_is_down_is_the_node_s_fault(pair: Pair) -> None:
    pair.node("spark-a").stop_engine()
    with pytest.raises(NodesNotReadyError, match="engine does not answer"):
        pair.verify("fabric")


def test_an_interrupted_run_ends_at_once_and_leaves_nothing_behind(pair: Pair) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    def folders() -> set[Path]:
        return set(Path("/tmp").glob("sparklock-verify-*"))  # noqa: S108 - where ssh's sockets are

    before = folders()
    with pytest.raises(KeyboardInterrupt):
        run_pytest(pair.manifest_path, only=None, junit_path=None, hear=interrupt)
    assert folders() == before


def test_a_selection_says_so_and_one_of_nothing_is_refused(pair: Pair) -> None:
    report = pair.verify("fabric.mtu")
    assert {item.group for item in report.checks} == {"fabric"}
    assert "(only fabric.mtu)" in report.text()
    with pytest.raises(NothingSelectedError):
        pair.verify("no_such_check")
    with pytest.raises(NothingSelectedError):
        pair.verify("fabric and")
