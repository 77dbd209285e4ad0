from __future__ import annotations

from ipaddress import IPv4Address

from builder.digest import hex_of
from tests.unit.verify import samples
from verify.expected import expect
from verify.judge import fabric
from verify.parse import RdmaPort


def test_both_names_of_the_image_and_all_layers_in_order_are_expected() -> None:
    image = samples.expected().image
    assert image.config_digest == samples.CONFIG
    assert image.manifest_digest == samples.MANIFEST
    assert image.diff_ids == (samples.BASE_DIFF_ID, samples.OUR_LAYER)


def test_every_file_of_ours_is_expected_and_of_two_edits_of_one_module_the_last() -> None:
    files = samples.expected().image.files
    assert files == {
        f"{samples.SITE}/tiny.py": hex_of(samples.GRAFTED),
        f"{samples.SITE}/registry.py": hex_of(samples.EDITED),
        "/workspace/chat.jinja": hex_of(samples.OWN),
    }


def test_files_of_diffs_and_plugins_are_expected_and_deleted_ones_are_not() -> None:
    made = {"mode": "0644", "size_bytes": 1}
    patch = {"diff": "a.diff", "digest": samples.OWN, "path": "a/x.py", "mode": "0644"}
    plugin = {
        "name": "ours",
        "version": "0+g1",
        "folder": samples.SITE,
        "entries": [{"key": "Tiny", "value": "tiny:Tiny"}],
        "files": [
            {**made, "source": "p/tiny.py", "target": "/site/tiny.py", "digest": samples.OWN}
        ],
        "made": [{**made, "target": "/site/ours.py", "digest": samples.GRAFTED}],
    }
    lock = samples.lock(
        patches=[
            {**patch, "target": "/site/x.py", "before": None, "after": samples.OWN},
            {**patch, "target": "/site/y.py", "before": samples.OWN, "after": None},
        ],
        plugins=[plugin],
    )
    found = expect(samples.manifest(), lock, samples.LOCK_DIGEST).image.files

    assert found["/site/x.py"] == hex_of(samples.OWN)
    assert found["/site/tiny.py"] == hex_of(samples.OWN)
    assert found["/site/ours.py"] == hex_of(samples.GRAFTED)
    assert "/site/y.py" not in found


def test_programs_are_resolved_as_the_kernel_would() -> None:
    assert samples.expected().image.executables == {
        "entrypoint": "/opt/entrypoint.sh",
        "node script": "/workspace/run-cluster-node.sh",
        "vllm": "vllm",
    }


def test_without_entrypoint_and_script_only_vllm_is_needed() -> None:
    manifest = samples.manifest(serve={"tensor_parallel": 2})
    found = expect(manifest, samples.lock(entrypoint=[]), samples.LOCK_DIGEST)
    assert found.image.executables == {"vllm": "vllm"}


def test_ranks_differ_in_rank_and_in_who_serves_and_in_nothing_else() -> None:
    head, other = (node.flags for node in samples.expected().nodes)
    assert head.items() - other.items() == {
        ("node-rank", "0"),
        ("host", samples.ANY),
        ("port", "8000"),
    }
    assert other.items() - head.items() == {("node-rank", "1"), ("headless", True)}


def test_flags_are_those_of_the_manifest_and_of_a_start_over_two_nodes() -> None:
    flags = samples.expected().nodes[1].flags
    assert flags == {
        "tensor-parallel-size": "2",
        "nnodes": "2",
        "node-rank": "1",
        "master-addr": "192.168.200.11",
        "master-port": "29501",
        "headless": True,
        "disable-custom-all-reduce": True,
        "max-model-len": "256",
        "enforce-eager": True,
    }


def test_a_single_node_meets_nobody() -> None:
    one = samples.expected(serve={"tensor_parallel": 1}, nodes=[{"name": "a", "ssh": "a"}])
    (node,) = one.nodes
    assert "nnodes" not in node.flags
    assert node.ports == ()
    assert node.peers == {}
    assert node.titles == ("EngineCore",)


def test_each_rank_has_its_own_worker_and_only_the_head_the_engine_core() -> None:
    titles = [node.titles for node in samples.expected().nodes]
    assert titles == [("EngineCore", "Worker_TP0"), ("Worker_TP1",)]


def test_with_stages_a_worker_is_named_by_stage_and_then_by_tensor_rank() -> None:
    nodes = [samples.node_table(f"spark-{rank}", 11 + rank) for rank in range(4)]
    serve = {"tensor_parallel": 2, "pipeline_parallel": 2}
    cluster = samples.expected(serve=serve, nodes=nodes)
    assert [node.titles[-1] for node in cluster.nodes] == [
        "Worker_PP0_TP0",
        "Worker_PP0_TP1",
        "Worker_PP1_TP0",
        "Worker_PP1_TP1",
    ]


def test_the_head_has_every_other_node_as_peer_and_they_have_the_head() -> None:
    nodes = [samples.node_table(f"spark-{rank}", 11 + rank) for rank in range(3)]
    peers = [set(n.peers) for n in samples.expected(nodes=nodes).nodes]
    assert peers == [{"spark-1", "spark-2"}, {"spark-0"}, {"spark-0"}]


def test_each_device_has_the_netdev_and_address_of_its_half() -> None:
    ports = samples.expected().nodes[1].ports
    assert [(port.hca, port.netdev, port.address) for port in ports] == [
        ("rocep1s0f1", "enp1s0f1np1", IPv4Address("192.168.200.12")),
        ("roceP2p1s0f1", "enP2p1s0f1np1", IPv4Address("192.168.201.12")),
    ]


def test_model_files_stand_where_the_node_has_its_model() -> None:
    nodes = [samples.node_table("spark-a", 11), samples.node_table("spark-b", 12)]
    nodes[1]["model_path"] = "/big/tiny"
    head, other = samples.expected(nodes=nodes).nodes
    assert set(head.model_files) == {"/srv/models/tiny/model.safetensors"}
    assert set(other.model_files) == {"/big/tiny/model.safetensors"}
    assert head.model == other.model == "/srv/models/tiny"


def test_a_server_on_all_addresses_is_asked_on_loopback_and_another_where_it_listens() -> None:
    assert samples.expected().api_host == "127.0.0.1"
    one = samples.expected(serve={"tensor_parallel": 2, "host": "192.168.200.11"})
    assert one.api_host == "192.168.200.11"


def test_rdma_is_expected_where_the_container_is_given_its_devices() -> None:
    assert samples.expected().uses_rdma
    assert not samples.expected(container={"devices": []}).uses_rdma
    assert samples.expected().devices == ()
    alone = samples.expected(serve={"tensor_parallel": 1}, nodes=[samples.node_table("a", 11)])
    assert not alone.uses_rdma


def test_a_device_beyond_the_listed_halves_is_expected_and_can_never_be_right() -> None:
    node = samples.node_table("spark-a", 11)
    del node["fabric"]["twin"]
    cluster = samples.expected(serve={"tensor_parallel": 1}, nodes=[node])
    first, second = cluster.nodes[0].ports
    assert first.netdev == "enp1s0f1np1"
    assert (second.hca, second.address) == ("roceP2p1s0f1", None)
    assert fabric.netdev_belongs(second, ["enP2p1s0f1np1"]).findings
    assert fabric.gid(second, RdmaPort("roceP2p1s0f1", "", "", "", None, "", "", ())).findings
    assert fabric.address(second, None).findings


def test_the_flag_that_ends_a_start_without_a_rank_is_expected_where_vllm_has_it() -> None:
    def flags(**args: object) -> object:
        serve = {"tensor_parallel": 2, "start_timeout_s": 900, "args": args}
        return (
            samples.expected(vllm={"version": "0.18.0"}, serve=serve)
            .nodes[1]
            .flags.get("distributed-timeout-seconds")
        )

    assert flags() == "900"
    assert flags(distributed_timeout_seconds=60) == "60"
    assert flags(distributed_timeout_seconds=False) is None
    assert "distributed-timeout-seconds" not in samples.expected().nodes[1].flags
