"""A manifest turned to a lab's nodes."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from deploy.lab.manifest import lab_manifest
from deploy.lab.spec import LabSpec

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "cluster.toml").read_text()
SPEC = LabSpec(root=ROOT)
OTHER = replace(SPEC, name="other", folder=".sparklock/other", subnets=(90, 91))


def test_the_embedded_default_describes_the_default_lab() -> None:
    assert tomllib.loads(lab_manifest(TEXT, SPEC)) == tomllib.loads(TEXT)


def test_only_addresses_and_ssh_config_change_and_comments_stay() -> None:
    text = lab_manifest(TEXT, OTHER)
    before, after = tomllib.loads(TEXT), tomllib.loads(text)
    assert after.pop("ssh") == {"config": ".sparklock/other/ssh_config"}
    fabric = after.pop("nodes")[1]["fabric"]
    assert fabric["address"] == "198.18.90.12"
    assert fabric["twin"]["address"] == "198.18.91.12"
    assert after == {key: before[key] for key in after}
    comments = [line.partition("#")[2] for line in TEXT.splitlines() if "#" in line]
    assert [line.partition("#")[2] for line in text.splitlines() if "#" in line] == comments


def test_another_number_of_nodes_is_served_by_as_many_ranks() -> None:
    for count in (1, 4):
        document = tomllib.loads(lab_manifest(TEXT, replace(OTHER, node_count=count)))
        assert len(document["nodes"]) == document["serve"]["tensor_parallel"] == count


def test_what_a_node_has_of_its_own_is_kept() -> None:
    text = TEXT.replace('name = "spark-b"', 'name = "b"\nmodel_path = "/srv/b"')
    nodes = tomllib.loads(lab_manifest(text, OTHER))["nodes"]
    assert [node.get("model_path") for node in nodes] == [None, "/srv/b"]
    assert nodes[1]["name"] == "spark-b"


def test_the_ssh_config_can_be_named_for_another_folder() -> None:
    document = tomllib.loads(lab_manifest(TEXT, OTHER, ssh_config="lab/ssh_config"))
    assert document["ssh"]["config"] == "lab/ssh_config"
