from __future__ import annotations

import json
from itertools import pairwise

import pytest

from builder import labels
from builder.digest import canonical_json, digest_bytes
from deploy.launch import Made, launch
from tests.unit.deploy.clusters import LOCK_DIGEST, document, lock, manifest_of, wanted


def test_the_head_runs_the_node_script_and_behind_it_vllm() -> None:
    head = wanted().specs[0]
    assert head.command == (
        *("./run-cluster-node.sh", "--role", "head", "--host-ip", "198.18.77.11"),
        *("--eth-if", "enp1s0f0np0", "--ib-if", "rocep1s0f0,roceP2p1s0f0"),
        *("--head-ip", "198.18.77.11", "--"),
        *("vllm", "serve", "/srv/models/m", "--tensor-parallel-size", "2"),
        *("--nnodes", "2", "--node-rank", "0"),
        *("--master-addr", "198.18.77.11", "--master-port", "29501"),
        *("--host", "0.0.0.0", "--port", "8000", "--disable-custom-all-reduce"),  # noqa: S104
        *("--enforce-eager", "--max-model-len", "256"),
    )


def test_a_worker_differs_from_the_head_only_in_what_is_its_own() -> None:
    head, worker = (list(spec.command) for spec in wanted().specs)
    own = {"--role": 1, "--host-ip": 1, "--node-rank": 1, "--host": 1, "--port": 1, "--headless": 0}

    def shared(command: list[str]) -> list[str]:
        for option, values in own.items():
            if option in command:
                at = command.index(option)
                del command[at : at + 1 + values]
        return command

    assert "--headless" in worker
    assert "--host" not in worker
    assert shared(head) == shared(worker)


def test_without_a_node_script_the_command_is_vllm_alone() -> None:
    head = wanted(change={"serve": {"node_script": None}}).specs[0]
    assert head.command[:2] == ("vllm", "serve")


def test_a_single_node_meets_nobody() -> None:
    (only,) = wanted(nodes=1).specs
    assert "--nnodes" not in only.command
    assert "--master-addr" not in only.command
    assert "--disable-custom-all-reduce" not in only.command
    assert "--port" in only.command


def test_ranks_wait_for_each_other_no_longer_than_a_start_may_take() -> None:
    def words(version: str, nodes: int = 2, **args: object) -> str:
        serve = {"tensor_parallel": nodes, "start_timeout_s": 900, "args": args}
        goal = wanted(nodes, change={"vllm": {"version": version}, "serve": serve})
        return " ".join(goal.specs[-1].command)

    assert " --distributed-timeout-seconds 900 " in words("0.18.0") + " "
    assert "--distributed-timeout-seconds" not in words("0.17.1")
    assert "--distributed-timeout-seconds" not in words("0.18.0", nodes=1)
    given = words("0.18.0", distributed_timeout_seconds=60)
    assert "900" not in given
    assert given.endswith("--distributed_timeout_seconds 60")


@pytest.mark.parametrize(
    ("nodes", "tensor", "stages"), [(1, 1, 1), (2, 2, 1), (4, 2, 2), (4, 4, 1)]
)
def test_the_world_is_tensor_times_pipeline_parallel_with_a_rank_on_each_node(
    nodes: int, tensor: int, stages: int
) -> None:
    serve = {"tensor_parallel": tensor, "pipeline_parallel": stages, "args": {}}
    specs = wanted(nodes, change={"serve": serve}).specs
    assert len(specs) == tensor * stages == nodes
    for rank, spec in enumerate(specs):
        words = list(spec.command)
        flags = dict(pairwise(words))
        assert flags["--tensor-parallel-size"] == str(tensor)
        assert flags.get("--pipeline-parallel-size", "1") == str(stages)
        assert flags.get("--nnodes", "1") == str(nodes)
        assert flags.get("--node-rank", "0") == str(rank)
        assert ("--headless" in words) is (rank > 0)
        assert ("--master-addr" in words) is ("NCCL_NET" in dict(spec.env)) is (nodes > 1)
    addresses = {dict(spec.env).get("VLLM_HOST_IP") for spec in specs}
    assert len(addresses) == nodes


def test_four_ranks_come_out_of_one_value() -> None:
    specs = wanted(nodes=4).specs
    assert [spec.rank for spec in specs] == [0, 1, 2, 3]
    assert ["--headless" in spec.command for spec in specs] == [False, True, True, True]
    assert len({spec.digest for spec in specs}) == 4


def test_four_ranks_may_be_two_stages_of_two() -> None:
    stages = {"serve": {"tensor_parallel": 2, "pipeline_parallel": 2}}
    for rank, spec in enumerate(wanted(nodes=4, change=stages).specs):
        options = dict(pairwise(spec.command))
        assert options["--tensor-parallel-size"] == options["--pipeline-parallel-size"] == "2"
        assert (options["--nnodes"], options["--node-rank"]) == ("4", str(rank))


def test_a_container_gets_what_rdma_needs_and_no_privilege_beyond() -> None:
    host = wanted().specs[0].request()["HostConfig"]
    assert isinstance(host, dict)
    assert "Privileged" not in host
    assert host["CapAdd"] == ("IPC_LOCK",)
    assert host["SecurityOpt"] == ("no-new-privileges",)
    assert {"Name": "memlock", "Soft": -1, "Hard": -1} in host["Ulimits"]
    assert host["RestartPolicy"] == {"Name": "no"}
    assert host["Init"] is True
    assert host["DeviceRequests"] == [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]
    assert [device["PathOnHost"] for device in host["Devices"]] == ["/dev/infiniband"]


def test_what_lets_a_program_reach_the_node_s_network_or_make_devices_is_dropped() -> None:
    def drops(**container: object) -> object:
        host = wanted(change={"container": container}).specs[0].request()["HostConfig"]
        assert isinstance(host, dict)
        return host["CapDrop"]

    assert drops() == ("MKNOD", "NET_RAW")
    assert drops(cap_add=["NET_RAW"]) == ("MKNOD",)
    assert drops(privileged=True) == ()


def test_a_manifest_that_asks_for_more_gets_it() -> None:
    more = {
        "privileged": True,
        "ipc": "host",
        "cap_add": ["SYS_PTRACE"],
        "security_opt": ["seccomp=unconfined", "no-new-privileges=false"],
        "ulimits": {"stack": 67108864},
        "user": "1000:1000",
        "memory_gib": 110,
        "log_mb": 5,
        "log_files": 2,
    }
    request = wanted(change={"container": more}).specs[0].request()
    host = request["HostConfig"]
    assert isinstance(host, dict)
    assert request["User"] == "1000:1000"
    assert host["Privileged"] is True
    assert host["IpcMode"] == "host"
    assert host["CapAdd"] == ("IPC_LOCK", "SYS_PTRACE")
    assert host["SecurityOpt"] == ("seccomp=unconfined",)
    assert host["Ulimits"][-1] == {"Name": "stack", "Soft": 67108864, "Hard": 67108864}
    assert (host["Memory"], host["MemorySwap"]) == (110 * 2**30, 110 * 2**30)
    assert host["LogConfig"]["Config"] == {"max-file": "2", "max-size": "5m"}


def test_the_files_of_a_node_s_rdma_devices_take_their_place_and_leave_the_digest_alone() -> None:
    spec = wanted(change={"container": {"devices": ["/dev/infiniband", "/dev/fuse"]}}).specs[0]
    assert spec.hcas == ("rocep1s0f0", "roceP2p1s0f0")
    host = spec.request(Made(("/dev/infiniband/uverbs1",)))["HostConfig"]
    assert isinstance(host, dict)
    paths = [device["PathOnHost"] for device in host["Devices"]]
    assert paths == ["/dev/infiniband/uverbs1", "/dev/fuse"]


def test_a_single_node_demands_no_rdma() -> None:
    (only,) = wanted(nodes=1).specs
    host = only.request(Made(()))["HostConfig"]
    assert isinstance(host, dict)
    assert (only.hcas, host["Devices"]) == ((), [])
    assert "NCCL_NET" not in dict(only.env)


def test_no_gpu_and_no_device_is_asked_for_when_the_manifest_lists_none() -> None:
    spec = wanted(change={"container": {"gpus": "none", "devices": [], "shm_gib": 1}}).specs[0]
    host = spec.request()["HostConfig"]
    assert isinstance(host, dict)
    assert (host["DeviceRequests"], host["Devices"], host["ShmSize"]) == ([], [], 2**30)


def test_the_model_is_read_only_at_the_same_path_in_every_container() -> None:
    parsed = document()
    parsed["nodes"][1]["model_path"] = "/data/m"
    head, worker = launch(manifest_of(parsed), lock())
    assert (head.mounts[0].source, worker.mounts[0].source) == ("/srv/models/m", "/data/m")
    assert head.mounts[0].target == worker.mounts[0].target == "/srv/models/m"
    assert head.mounts[0].read_only


def test_environment_is_sorted_and_the_node_has_the_last_word() -> None:
    parsed = document()
    parsed["container"]["env"] = {"ZED": "all", "NCCL_DEBUG": "INFO"}
    parsed["nodes"][1]["env"] = {"NCCL_DEBUG": "WARN"}
    head, worker = launch(manifest_of(parsed), lock())
    assert list(head.env) == sorted(head.env)
    assert dict(head.env)["NCCL_DEBUG"] == "INFO"
    assert dict(worker.env)["NCCL_DEBUG"] == "WARN"


@pytest.mark.parametrize(
    "change",
    [
        {"serve": {"port": 8001}},
        {"container": {"shm_gib": 2}},
        {"container": {"env": {"A": "1"}}},
        {"serve": {"args": {"max-model-len": 512}}},
    ],
)
def test_whatever_changes_how_a_rank_runs_changes_its_spec_digest(
    change: dict[str, dict[str, object]],
) -> None:
    assert wanted(change=change).specs[0].digest != wanted().specs[0].digest


def test_the_spec_digest_names_the_image_by_its_manifest() -> None:
    assert wanted(image="other").specs[0].digest != wanted().specs[0].digest


def test_limits_of_time_are_no_part_of_the_spec() -> None:
    assert (
        wanted(change={"serve": {"start_timeout_s": 5}}).specs[0].digest == wanted().specs[0].digest
    )


def test_labels_say_which_lock_which_spec_which_generation_and_rank() -> None:
    spec = wanted().specs[1]
    assert spec.labels(LOCK_DIGEST, 7) == {
        labels.CLUSTER: "pair",
        labels.LOCK_DIGEST: LOCK_DIGEST,
        labels.SPEC_DIGEST: spec.digest,
        labels.GENERATION: "7",
        labels.RANK: "1",
    }
    assert spec.name(7) == "sparklock-pair-g7-r1"


def test_the_spec_digest_is_of_canonical_json_and_so_independent_of_key_order() -> None:
    spec = wanted().specs[0]
    parts = {"manifest_digest": spec.manifest_digest, "node": "spark-a", "rank": 0}
    shuffled = json.loads(json.dumps({"request": spec.request(), **parts}))
    assert spec.digest == digest_bytes(canonical_json(shuffled))
