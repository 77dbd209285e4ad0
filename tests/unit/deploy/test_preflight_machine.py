"""Preflight's rules on a machine: GPU, driver, memory, limits, paths, ports, leftovers, disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from builder.digest import digest_bytes
from deploy.host import Gpu, Holder, Memory, OtherContainer, Process
from deploy.preflight import Level, preflight
from deploy.state import Listener, ModelFileFacts
from tests.unit.deploy.clusters import HOST, container, empty, lock, serving, wanted
from tests.unit.deploy.preflighting import BOTH, GOAL, A, B, node_with, states_with, the_one, told

if TYPE_CHECKING:
    from builder.digest import Digest
    from deploy.state import NodeState

GB = 10**9
MEMORY = Memory(total=130 * GB, free=125 * GB, available=126 * GB)
NO_GPUS = wanted(change={"container": {"gpus": "none"}})


def test_a_healthy_pair_has_no_finding_at_all_empty_or_serving() -> None:
    assert told(empty(GOAL)) == []
    assert told(serving(GOAL)) == []


def test_nothing_that_is_unknown_passes() -> None:
    found = told(node_with(host=None))
    assert ("UNKNOWN", "machine", "nothing is known of the machine") in found
    assert ("UNKNOWN", "clock", "the node's clock could not be read") in found


# --- GPU and driver -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "engine", [{"runtimes": ("nvidia", "runc")}, {"gpu_cdi": True}, {"runtimes": ("runc",)}]
)
def test_a_runtime_a_cdi_device_or_the_hook_each_give_gpus(engine: dict[str, Any]) -> None:
    facts = empty(GOAL)[A].engine
    assert told(node_with(engine=replace(facts, **engine))) == []


def test_an_engine_that_gives_no_gpu_is_an_error_where_the_manifest_asks_for_one() -> None:
    without = states_with(gpu=replace(HOST.gpu, hook=False))
    found = the_one(without)
    assert (found.level, found.row) == (Level.ERROR, "GPU")
    assert "nvidia-ctk" in found.message.remedy
    assert told(states_with(NO_GPUS, gpu=Gpu()), NO_GPUS) == []


def test_gpus_that_a_daemon_reload_takes_away_are_a_note_and_those_of_cdi_stay() -> None:
    systemd = replace(empty(GOAL)[A].engine, cgroup_driver="systemd")
    assert the_one(node_with(engine=systemd)).level is Level.NOTE
    assert told(node_with(engine=replace(systemd, gpu_cdi=True))) == []


def test_no_driver_and_no_gpu_are_errors() -> None:
    assert the_one(states_with(gpu=Gpu(hook=True))).message.what == "NVIDIA's driver is not loaded"
    without = the_one(states_with(gpu=replace(HOST.gpu, count=0)))
    assert without.message.what == "NVIDIA's driver is loaded and finds no GPU"


def test_the_driver_branch_that_deadlocks_is_an_error_and_eager_a_warning() -> None:
    bad = replace(HOST.gpu, driver="590.44.01")
    graphs = wanted(change={"serve": {"args": {"max-model-len": 256}}})
    found = preflight(graphs, states_with(graphs, nodes=BOTH, gpu=bad))
    assert [item.level for item in found] == [Level.ERROR] * 2
    assert found[0].message.found == "590.44.01"
    eager = preflight(GOAL, states_with(nodes=BOTH, gpu=bad))
    assert [item.level for item in eager] == [Level.WARNING] * 2


def test_drivers_of_two_branches_are_an_error_and_of_one_branch_a_warning() -> None:
    note, branch = preflight(GOAL, states_with(gpu=replace(HOST.gpu, driver="575.57.08")))
    assert note.level is Level.NOTE
    assert (branch.level, branch.nodes) == (Level.ERROR, BOTH)
    assert branch.message.found == "spark-a 575.57.08, spark-b 580.95.05"
    point = the_one(states_with(gpu=replace(HOST.gpu, driver="580.82.09")))
    assert point.level is Level.WARNING


# --- memory ---------------------------------------------------------------------------------------


def test_page_cache_in_the_way_of_vllms_check_is_a_warning_with_the_way_to_drop_it() -> None:
    cached = replace(MEMORY, free=90 * GB, cached=36 * GB)
    found = the_one(states_with(memory=cached))
    assert (found.level, found.row) == (Level.WARNING, "memory")
    assert found.message.expected == "117.0 GB, which is 0.9 of 130.0 GB"
    assert found.message.found == "90.0 GB free, 36.0 GB in page cache"
    assert "drop_caches" in found.message.remedy


def test_memory_that_nothing_can_free_is_an_error() -> None:
    full = replace(MEMORY, free=5 * GB, available=100 * GB)
    found = the_one(states_with(memory=full))
    assert (found.level, found.message.found) == (Level.ERROR, "100.0 GB available")


@pytest.mark.parametrize("option", ["gpu-memory-utilization", "gpu_memory_utilization"])
def test_the_share_that_the_manifest_asks_for_counts(option: str) -> None:
    modest = wanted(change={"serve": {"args": {option: 0.7}}})
    less = replace(MEMORY, free=92 * GB, available=100 * GB)
    assert told(states_with(modest, memory=less), modest) == []


def test_memory_of_our_own_running_rank_is_not_missed() -> None:
    full = replace(MEMORY, free=5 * GB, available=10 * GB)
    states = serving(GOAL)
    states[A] = replace(states[A], host=replace(HOST, memory=full))
    assert told(states) == []


def test_memory_that_cannot_be_read_is_unknown_and_matters_to_no_cpu() -> None:
    assert the_one(states_with(memory=None)).level is Level.UNKNOWN
    assert told(states_with(NO_GPUS, memory=None), NO_GPUS) == []


def test_much_in_swap_is_a_warning() -> None:
    swap = replace(MEMORY, swap_total=16 * GB, swap_free=10 * GB)
    assert the_one(states_with(memory=swap)).message.found == "6.0 GB of 16.0 GB"
    little = replace(MEMORY, swap_total=16 * GB, swap_free=16 * GB - 1)
    assert told(states_with(memory=little)) == []


def test_the_kernel_that_registers_no_memory_is_an_error_unless_booted_with_the_cure() -> None:
    bad = "7.0.0-1019-nvidia"
    found = preflight(GOAL, states_with(nodes=BOTH, kernel=bad))
    assert {(item.level, item.row) for item in found} == {(Level.ERROR, "kernel")}
    assert "kho=off" in found[0].message.remedy
    assert told(states_with(nodes=BOTH, kernel=bad, boot_line="ro quiet kho=off")) == []


def test_more_contiguous_memory_free_than_there_is_tells_the_same_fault() -> None:
    broken = replace(MEMORY, cma_total=64 * 2**20, cma_free=65 * 2**20)
    assert the_one(states_with(memory=broken)).level is Level.ERROR
    sound = replace(MEMORY, cma_total=64 * 2**20, cma_free=64 * 2**20)
    assert told(states_with(memory=sound)) == []


def test_a_kernel_that_cannot_be_read_is_unknown() -> None:
    assert the_one(states_with(kernel="")).level is Level.UNKNOWN


# --- what the engine can give ---------------------------------------------------------------------


def test_a_limit_of_locked_memory_is_an_error_and_unknown_a_warning() -> None:
    assert the_one(states_with(memlock=False)).level is Level.ERROR
    assert the_one(states_with(memlock=None)).level is Level.UNKNOWN
    no_rdma = wanted(change={"container": {"devices": []}})
    assert told(states_with(no_rdma, memlock=False), no_rdma) == []


def test_a_rootless_engine_is_an_error_for_a_pair_alone() -> None:
    rootless = replace(empty(GOAL)[A].engine, rootless=True)
    assert the_one(node_with(engine=rootless)).row == "engine"
    single = wanted(nodes=1)
    assert told(node_with(single, engine=rootless), single) == []


def test_paths_that_are_missing_are_named() -> None:
    found = preflight(GOAL, states_with(missing=("/srv/x", "/dev/infiniband")))
    assert [item.message.place for item in found] == [
        "node spark-a, /srv/x",
        "node spark-a, /dev/infiniband",
    ]
    assert ["mount" in item.message.what for item in found] == [True, False]


# --- ports ----------------------------------------------------------------------------------------


def test_who_holds_a_port_is_told() -> None:
    states = node_with(
        listeners=(Listener("0.0.0.0", 8000),),  # noqa: S104
        host=replace(HOST, holders=(Holder(8000, "nginx", 77),)),
    )
    assert the_one(states).message.found == "0.0.0.0, nginx (process 77)"


def test_another_sparklock_cluster_that_holds_a_port_is_named_as_one() -> None:
    other = OtherContainer("f" * 64, "sparklock-big-g3-r0", "big", running=True,
                           command="./run.sh -- vllm serve /m --port 8000")  # fmt: skip
    states = node_with(listeners=(Listener("0.0.0.0", 8000),), others=(other,))  # noqa: S104
    message = the_one(states).message
    assert message.what == "the sparklock cluster big listens on the port"
    assert "sparklock-big-g3-r0" in message.found
    stopped = node_with(
        listeners=(Listener("0.0.0.0", 8000),),  # noqa: S104
        others=(replace(other, running=False),),
    )
    assert the_one(stopped).message.what == "something else listens on the port"


def test_a_foreign_container_that_says_the_port_is_named() -> None:
    other = OtherContainer("f" * 64, "qwen", "", running=True, command="vllm serve m --port=8000")
    states = node_with(listeners=(Listener("::", 8000),), others=(other,))
    assert the_one(states).message.found == "::, container qwen"


def test_sockets_that_cannot_be_read_leave_ports_unknown() -> None:
    found = the_one(states_with(sockets_known=False))
    assert (found.level, found.row) == (Level.UNKNOWN, "ports")


# --- leftovers, disk, time ------------------------------------------------------------------------


def test_containers_of_known_launchers_are_leftovers_running_or_not() -> None:
    others = (
        OtherContainer("1" * 64, "vllm_node", "", running=True),
        OtherContainer("2" * 64, "sparkrun_abc_head", "", running=False),
        OtherContainer("3" * 64, "registry", "", running=True),
    )
    found = told(node_with(others=others))
    assert found == [
        ("WARNING", "leftovers", "a container of another launcher runs and holds memory"),
        ("WARNING", "leftovers", "a container of another launcher is left, stopped"),
    ]


def test_our_own_trial_containers_are_a_note() -> None:
    stale = container(GOAL, 0, running=False, name="sparklock-pair-g2-r0.trial")
    assert the_one(node_with(containers=(stale,))).level is Level.NOTE


def test_processes_of_ray_and_vllm_outside_of_containers_are_told_and_ours_are_not() -> None:
    states = serving(GOAL)
    strays = (Process(7, "raylet"), Process(9, "VLLM::Worker_TP", "id-1-0"))
    states[A] = replace(states[A], host=replace(HOST, strays=strays))
    assert the_one(states).message.found == "raylet (7)"


def test_shared_memory_of_earlier_runs_is_told_and_other_files_are_not() -> None:
    shm = (("nccl-abc", 10**9), ("psm_1", 1), ("pulse-shm-1", 5))
    assert the_one(states_with(shm=shm)).message.found == "1.0 GB: nccl-abc, psm_1"
    assert told(states_with(shm=(("pulse-shm-1", 5),))) == []


def with_model_of_another(other: OtherContainer, *, digest: Digest) -> dict[str, NodeState]:
    """A node whose model's first file has a digest, with another container."""
    file = GOAL.model_files[0]
    facts = ModelFileFacts(file.path, file.size_bytes, digest)
    return node_with(model_files=(facts,), others=(other,))


def test_files_that_another_clusters_running_pair_has_are_not_replaced() -> None:
    folder = GOAL.manifest.model_path(GOAL.manifest.nodes[0])
    other = OtherContainer(
        "f" * 64, "sparklock-big-g3-r0", "big", running=True, mounts=("/etc/hosts", folder)
    )
    different = digest_bytes(b"another model")
    found = the_one(with_model_of_another(other, digest=different))
    assert (found.level, found.row) == (Level.ERROR, "model")
    assert "sparklock-big-g3-r0 of the sparklock cluster big" in found.message.found
    for harmless in (
        replace(other, running=False),
        replace(other, mounts=("/srv", f"{folder}-2")),
    ):
        assert told(with_model_of_another(harmless, digest=different)) == []
    same = GOAL.model_files[0].digest
    assert told(with_model_of_another(other, digest=same)) == []


def test_a_model_that_the_container_would_not_see_is_refused() -> None:
    found = the_one(node_with(model_hidden="config.json -> ../../blobs/ab"))
    assert (found.level, found.row) == (Level.ERROR, "model")
    assert found.message.found == "config.json -> ../../blobs/ab"
    assert "cp -rL" in found.message.remedy


def test_room_for_the_model_is_needed_only_for_what_is_sent() -> None:
    assert told(states_with(model_free_bytes=16)) == []
    short = the_one(states_with(model_free_bytes=15))
    assert (short.message.expected, short.message.found) == (
        "at least 16 B for /srv/models/m", "15 B",
    )  # fmt: skip
    assert the_one(states_with(model_free_bytes=None)).level is Level.UNKNOWN
    states = serving(GOAL)
    states[A] = replace(states[A], host=replace(HOST, model_free_bytes=None))
    assert told(states) == []


def test_time_outs_too_short_for_gpus_are_warnings() -> None:
    hasty = wanted(change={"serve": {"start_timeout_s": 60, "completion_timeout_s": 5}})
    found = preflight(hasty, empty(hasty))
    assert [item.message.place for item in found] == [
        "cluster.toml: serve.start_timeout_s",
        "cluster.toml: serve.completion_timeout_s",
    ]
    lab = wanted(change={"serve": {"start_timeout_s": 60}, "container": {"gpus": "none"}})
    assert told(empty(lab), lab) == []
    assert lock().model.files


# --- between nodes --------------------------------------------------------------------------------


def test_kernels_and_engines_that_differ_are_warnings_of_both_nodes() -> None:
    kernel = the_one(states_with(kernel="6.11.0-1016-nvidia"))
    assert (kernel.level, kernel.row, kernel.nodes) == (Level.WARNING, "kernel", BOTH)
    engine = replace(empty(GOAL)[B].engine, version="27.5.1")
    assert the_one(node_with(node=B, engine=engine)).row == "engine"


@pytest.mark.parametrize(("ahead_s", "found"), [(4.9, 0), (5.2, 1), (-86400.0, 1)])
def test_clocks_apart_are_a_warning(ahead_s: float, found: int) -> None:
    assert len(told(states_with(clock_ahead_s=ahead_s))) == found


def test_a_clock_read_slowly_is_only_as_sure_as_it_was_quick() -> None:
    assert told(states_with(clock_ahead_s=9.0, clock_within_s=2.1)) == []
