"""A manifest's values: one canonical form, defaults, and what follows from them."""

from __future__ import annotations

from ipaddress import IPv4Interface
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builder.edges.files import read_manifest

if TYPE_CHECKING:
    from tests.unit.manifest.conftest import Folder

ROOT = Path(__file__).parents[3]


def test_the_committed_manifest_is_valid() -> None:
    assert read_manifest(ROOT / "cluster.toml").manifest.name == "lab"


def test_the_digest_is_of_values_and_of_no_comment_layout_or_order_of_keys(
    folder: Folder, good_text: str
) -> None:
    other = folder.changed(
        ('name = "pair"', "# a comment\nname   =   'pair'"),
        (
            "args = { max-model-len = 256, gpu-memory-utilization = 0.8 }",
            "args.gpu-memory-utilization = 8e-1\nargs.max-model-len = 0x100",
        ),
    )
    assert folder.read(other).cluster_digest == folder.read(good_text).cluster_digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max-model-len = 256", "max-model-len = 257"),
        ("= 0.8", "= 0.80001"),
        ('ssh = "spark-b"', 'ssh = "spark-c"'),
        ("tensor_parallel = 2", "tensor_parallel = 2\nstart_timeout_s = 1799"),
    ],
)
def test_every_value_changes_the_digest(folder: Folder, good_text: str, old: str, new: str) -> None:
    changed = folder.read(folder.changed((old, new))).cluster_digest
    assert changed != folder.read(good_text).cluster_digest


def test_a_default_written_out_changes_no_digest(folder: Folder, good_text: str) -> None:
    text = folder.changed(("tensor_parallel = 2", "tensor_parallel = 2\nport = 8000"))
    assert folder.read(text).cluster_digest == folder.read(good_text).cluster_digest


def test_what_stands_for_nothing_by_default_is_not_stated(folder: Folder, good_text: str) -> None:
    stated = folder.read(good_text).manifest.stated()

    assert not stated["image"].keys() & {"epoch", "patch", "plugin", "vendor"}
    assert stated["image"]["config"] == {}
    assert stated["nodes"][0].keys() == {"name", "ssh", "fabric", "docker_socket"}
    assert stated["container"]["devices"] == ["/dev/infiniband"]
    assert (stated["schema"], stated["serve"]["port"]) == (1, 8000)


@pytest.mark.parametrize("key", ["entrypoint", "cmd"])
def test_no_items_in_place_of_the_bases_own_change_the_digest(
    folder: Folder, good_text: str, key: str
) -> None:
    text = folder.changed(("[vllm]", f"[image.config]\n{key} = []\n\n[vllm]"))
    assert folder.read(text).cluster_digest != folder.read(good_text).cluster_digest


def test_every_default_that_stands_for_something_is_stated(folder: Folder, good_text: str) -> None:
    """A field whose default becomes another one makes locks stale."""
    manifest = folder.read(good_text).manifest
    stated = manifest.serve.stated()

    assert stated.keys() == {
        name
        for name, field in type(manifest.serve).model_fields.items()
        if field.default not in (None, (), {}) or getattr(manifest.serve, name)
    }


def test_the_order_of_nodes_changes_the_digest(folder: Folder, good_text: str) -> None:
    head, first, second = good_text.split("[[nodes]]\n")
    swapped = f"{head}[[nodes]]\n{second}\n[[nodes]]\n{first}"
    assert folder.read(swapped).cluster_digest != folder.read(good_text).cluster_digest


def test_tables_are_sorted_by_key_so_that_no_order_of_keys_reaches_an_image_or_a_command(
    folder: Folder,
) -> None:
    manifest = folder.read(
        folder.changed(
            ("entries = { ", 'entries = { Zeta = ["z", "Z"], '),
            ("[vllm]", '[image.config.env]\nB = "1"\nA = "2"\n\n[vllm]'),
            ("[container]", '[container]\nenv = { Z = "1", B = "2" }'),
        )
    ).manifest
    assert list(manifest.image.registers[0].entries) == ["Tiny", "Zeta"]
    assert list(manifest.image.config.env) == ["A", "B"]
    assert list(manifest.container.env) == ["B", "Z"]
    assert list(manifest.serve.args) == ["gpu-memory-utilization", "max-model-len"]


def test_a_decimal_number_among_options_is_kept_as_its_shortest_text(folder: Folder) -> None:
    args = folder.read(folder.changed(("= 0.8 ", "= 0.80, b = true, c = 'x', d = 1e22 "))).manifest
    assert args.serve.args == {
        "b": True,
        "c": "x",
        "d": "1e+22",
        "gpu-memory-utilization": "0.8",
        "max-model-len": 256,
    }


def test_the_served_name_is_the_option_or_else_the_models_path(
    folder: Folder, good_text: str
) -> None:
    assert folder.read(good_text).manifest.served_model_name == "/srv/models/tiny"
    named = folder.changed(("max-model-len = 256", 'served-model-name = "tiny"'))
    assert folder.read(named).manifest.served_model_name == "tiny"
    spelt = folder.changed(("max-model-len = 256", 'served_model_name = "tiny"'))
    assert folder.read(spelt).manifest.served_model_name == "tiny"


def test_a_node_may_have_the_model_elsewhere(folder: Folder) -> None:
    text = folder.changed(('ssh = "spark-b"', 'ssh = "spark-b"\nmodel_path = "/data/tiny"'))
    manifest = folder.read(text).manifest
    assert [manifest.model_path(node) for node in manifest.nodes] == [
        "/srv/models/tiny",
        "/data/tiny",
    ]


def test_a_fabric_has_an_address_and_a_netdev_per_half(folder: Folder, good_text: str) -> None:
    fabric = folder.read(good_text).manifest.nodes[0].fabric
    assert fabric is not None
    assert [str(address) for address in fabric.addresses] == ["192.168.200.12", "192.168.201.12"]
    assert fabric.netdevs == ("enp1s0f1np1", "enP2p1s0f1np1")
    assert fabric.interface(fabric.address) == IPv4Interface("192.168.200.12/24")


def alone(text: str) -> str:
    """The manifest with its first node alone, which then needs no fabric."""
    return (
        text.partition("\n[nodes.fabric]")[0]
        .replace("tensor_parallel = 2", "tensor_parallel = 1")
        .replace('node_script = "./run-cluster-node.sh"\n', "")
    )


def test_a_single_node_needs_no_fabric(folder: Folder, good_text: str) -> None:
    """A run on one node must not demand RDMA."""
    assert folder.read(alone(good_text)).manifest.nodes[0].fabric is None


def test_a_single_node_may_set_what_else_would_be_a_nodes_own(
    folder: Folder, good_text: str
) -> None:
    env = '[container]\nenv = { VLLM_HOST_IP = "10.0.0.1" }'
    manifest = folder.read(alone(good_text).replace("[container]", env)).manifest
    assert manifest.container.env == {"VLLM_HOST_IP": "10.0.0.1"}


@pytest.mark.parametrize(
    "source",
    [
        "oci:images/base",
        "oci:/srv/images/base",
        "oci:../lab/images/base",
        "archive:base.tar",
        "docker:vllm-node",
        "docker:vllm-node:latest",
        "docker.io/hellohal2064/vllm-qwen3.5-gb10:latest",
        "registry.example:5000/a/b_c@sha256:" + "0" * 64,
        "localhost/a",
        "localhost:5000/a",
        "host:5000/a",
    ],
)
def test_a_source_of_any_kind_is_valid(folder: Folder, source: str) -> None:
    text = folder.changed(("oci:images/donor", source))
    assert folder.read(text).manifest.image.donors["tiny"].source == source


@pytest.mark.parametrize(
    "source",
    [
        *("", "oci:", "oci", "oci:a//b", "oci:a/", "oci:.", "oci:a\\nb", "oic:images/base"),
        *("archive:", "docker:", "docker:-x", "https://host.example/a", "name:tag", "a b.c/d"),
        *("host.example/", "host.example/A", "host.example/a:", "host.example//a"),
        "host.example/a@sha256:0",
    ],
)
def test_a_source_that_is_malformed_is_refused(folder: Folder, source: str) -> None:
    said = folder.error(folder.changed(("oci:images/donor", source)))
    assert said.startswith("cluster.toml:12: image.donors.tiny.source: wrong value\n")


def test_the_node_of_an_image_changes_the_digest_and_its_absence_does_not(
    folder: Folder,
) -> None:
    donor = ("oci:images/donor", "docker:vllm-node")
    without = folder.read(folder.changed(donor))
    on_a_node = folder.read(
        folder.changed(
            ('source = "oci:images/donor"', 'source = "docker:vllm-node"\nnode = "spark-a"')
        )
    )
    assert "node" not in without.manifest.stated()["image"]["donors"]["tiny"]
    assert on_a_node.manifest.stated()["image"]["donors"]["tiny"]["node"] == "spark-a"
    assert without.cluster_digest != on_a_node.cluster_digest
