"""Ranks, and the environment of each rank's container."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.topology import CACHES, OF_ONE_NODE, UNKEPT, container_environment, ranks
from builder.vllm_flags import has_distributed_timeout

if TYPE_CHECKING:
    from tests.unit.manifest.conftest import Folder

ALWAYS = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_memory_monitor_refresh_ms": "0",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


ALWAYS |= CACHES
"""A cache is kept unless the manifest says otherwise."""


def other_port(text: str) -> str:
    """The manifest with the second node cabled through its other port."""
    head, name, second = text.partition('name = "spark-b"')
    return head + name + second.replace("s0f1np1", "s0f0np0").replace("s0f1", "s0f0")


def test_nodes_are_ranks_in_order_and_all_meet_at_the_heads_fabric_address(
    folder: Folder, good_text: str
) -> None:
    first, second = ranks(folder.read(good_text).manifest)
    assert (first.node_rank, first.node.name, first.is_head) == (0, "spark-a", True)
    assert (second.node_rank, second.node.name, second.is_head) == (1, "spark-b", False)
    assert first.master_addr == second.master_addr == "192.168.200.12"
    assert first.world_size == second.world_size == 2
    assert (first.host_ip, second.host_ip) == ("192.168.200.12", "192.168.200.13")
    assert second.hcas == ("rocep1s0f1", "roceP2p1s0f1")


def test_every_variable_of_a_rank_among_several_nodes(folder: Folder, good_text: str) -> None:
    manifest = folder.read(other_port(good_text)).manifest
    assert container_environment(manifest, manifest.nodes[1]) == ALWAYS | {
        **UNKEPT,
        "GLOO_SOCKET_IFNAME": "enp1s0f0np0",
        "MN_IF_NAME": "enp1s0f0np0",
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_HCA": "=rocep1s0f0,roceP2p1s0f0",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
        "NCCL_NET": "IB",
        "NCCL_SOCKET_IFNAME": "=enp1s0f0np0",
        "OMPI_MCA_btl_tcp_if_include": "enp1s0f0np0",
        "TP_SOCKET_IFNAME": "enp1s0f0np0",
        "UCX_NET_DEVICES": "rocep1s0f0:1,roceP2p1s0f0:1",
        "VLLM_HOST_IP": "192.168.200.13",
    }


def test_no_cache_is_kept_when_the_manifest_says_so(folder: Folder) -> None:
    text = folder.changed(("[container]", '[container]\ncaches = "off"'))
    manifest = folder.read(text).manifest
    env = container_environment(manifest, manifest.nodes[0])
    assert not env.keys() & {*CACHES, *UNKEPT}


def test_without_rdma_devices_nccl_is_told_to_take_tcp(folder: Folder) -> None:
    manifest = folder.read(folder.changed(("[container]", "[container]\ndevices = []"))).manifest
    env = container_environment(manifest, manifest.nodes[1])
    assert (env["NCCL_NET"], env["NCCL_IB_DISABLE"]) == ("Socket", "1")
    assert (env["UCX_NET_DEVICES"], "NCCL_IB_HCA" in env) == ("enp1s0f1np1", False)
    assert env["NCCL_SOCKET_IFNAME"] == "=enp1s0f1np1"


@pytest.mark.parametrize("more", ["privileged = true", 'devices = ["/dev/infiniband/uverbs0"]'])
def test_rdma_devices_by_another_way_are_rdma_devices(folder: Folder, more: str) -> None:
    manifest = folder.read(folder.changed(("[container]", f"[container]\n{more}"))).manifest
    assert container_environment(manifest, manifest.nodes[0])["NCCL_NET"] == "IB"


@pytest.mark.parametrize(
    ("version", "has"),
    [
        *(("0.17.1", False), ("0.18.0", True), ("0.18.0rc1", False), ("0.18.1.dev5+g1", False)),
        *(("0.19.0rc1", True), ("0.33.0+cu130", True), ("1.0", True), ("unknown", False)),
        *(("0.16.0rc1.dev122+g6595a2380", False), ("0.18", True), ("0.18.0+standin", True)),
    ],
)
def test_the_distributed_timeout_came_with_vllm_0_18(version: str, *, has: bool) -> None:
    assert has_distributed_timeout(version) is has


def test_ranks_differ_only_in_what_is_a_nodes_own(folder: Folder, good_text: str) -> None:
    manifest = folder.read(other_port(good_text)).manifest
    first, second = (container_environment(manifest, node) for node in manifest.nodes)
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} == OF_ONE_NODE


def test_no_gid_index_is_ever_set(folder: Folder, good_text: str) -> None:
    """It moves with the addresses of an interface; NCCL finds it by itself."""
    manifest = folder.read(good_text).manifest
    for node in manifest.nodes:
        assert "NCCL_IB_GID_INDEX" not in container_environment(manifest, node)


def test_a_single_node_gets_no_fabric_variable_even_if_it_has_a_fabric(
    folder: Folder, good_text: str
) -> None:
    head, first, _ = good_text.split("[[nodes]]\n")
    text = f"{head}[[nodes]]\n{first}".replace("tensor_parallel = 2", "tensor_parallel = 1")
    manifest = folder.read(text).manifest
    assert manifest.nodes[0].fabric is not None
    assert container_environment(manifest, manifest.nodes[0]) == ALWAYS
    assert ranks(manifest)[0].master_addr is None


def test_a_single_node_without_fabric_has_neither_address_nor_devices(
    folder: Folder, good_text: str
) -> None:
    text = good_text.partition("\n[nodes.fabric]")[0]
    text = text.replace("tensor_parallel = 2", "tensor_parallel = 1")
    (rank,) = ranks(folder.read(text.replace("node_script", "# node_script")).manifest)
    assert (rank.host_ip, rank.hcas, rank.master_addr) == (None, (), None)


def test_the_manifests_variables_win_and_the_nodes_own_win_over_those(folder: Folder) -> None:
    text = folder.changed(
        ("[container]", '[container]\nenv = { A = "all", B = "all", HF_HUB_OFFLINE = "0" }'),
        ('ssh = "spark-b"', 'ssh = "spark-b"\nenv = { B = "own", NCCL_NET = "Socket" }'),
    )
    manifest = folder.read(text).manifest
    first, second = (container_environment(manifest, node) for node in manifest.nodes)
    assert (first["A"], first["B"], first["HF_HUB_OFFLINE"], first["NCCL_NET"]) == (
        "all",
        "all",
        "0",
        "IB",
    )
    assert (second["A"], second["B"], second["NCCL_NET"]) == ("all", "own", "Socket")
    assert list(second) == sorted(second)
