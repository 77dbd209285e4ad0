"""What comes of the three manifests: two refusals and an image; test_readme.py has their words."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.story.conftest import Examples

REFUSED = 4
NO_LAUNCHER = (
    "donor/cluster.toml:",
    ": serve.node_script: ./run-cluster-node.sh is not in the assembled image",
    "stat ./run-cluster-node.sh: no such file or directory",
    "remedy:   use a base that has it, or add it with [[image.file]]",
)
NO_MODEL = (
    "/vllm/model_executor/models/registry.py: ",
    "the checkpoint's architecture TinySparkForCausalLM is not registered",
    "remedy:   add [[image.register]] for it, and [[image.graft]] from a donor",
)


@pytest.mark.parametrize(("name", "said"), [("donor", NO_LAUNCHER), ("base", NO_MODEL)])
def test_neither_image_alone_gets_a_lock(
    examples: Examples, name: str, said: tuple[str, ...]
) -> None:
    ended = examples.inv("lock", name)
    assert ended.returncode == REFUSED, ended.stderr
    assert [part for part in said if part not in ended.stderr] == []
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    assert not examples.lock(name).exists()


def test_the_donors_own_entrypoint_makes_no_difference(examples: Examples) -> None:
    examples.keep_the_donors_entrypoint()
    ended = examples.inv("build", "donor")
    assert ended.returncode == REFUSED, ended.stderr
    assert [part for part in NO_LAUNCHER if part not in ended.stderr] == []


def test_the_hybrid_is_built_as_committed(examples: Examples) -> None:
    committed = examples.lock("hybrid").read_bytes()
    ended = examples.inv("build", "hybrid", "--locked")
    assert ended.returncode == 0, ended.stderr
    outputs = json.loads(committed)["outputs"]
    assert outputs["manifest_digest"] in ended.stdout
    assert outputs["config_digest"] in ended.stdout
    assert examples.lock("hybrid").read_bytes() == committed


def test_the_hybrid_is_the_base_and_two_files_of_the_donor_and_one_entry(
    examples: Examples,
) -> None:
    image = json.loads(examples.lock("hybrid").read_bytes())["image"]
    package = "/usr/local/lib/python3.12/dist-packages/vllm"
    assert [pick["target"] for pick in image["picks"]] == [
        f"{package}/model_executor/models/tiny_spark.py",
        f"{package}/transformers_utils/configs/tiny_spark.py",
    ]
    (table,) = image["tables"]
    assert table["target"] == f"{package}/model_executor/models/registry.py"
    assert [(entry["key"], entry["state"]) for entry in table["entries"]] == [
        ("TinySparkForCausalLM", "added")
    ]
    assert image["files"] == []
    assert image["entrypoint"] == ["/opt/nvidia/nvidia_entrypoint.sh"]
    assert image["workdir"] == "/workspace/vllm"


def test_the_manifests_differ_in_nothing_but_their_images(examples: Examples) -> None:
    donor, base, hybrid = (
        tomllib.loads(examples.manifest(name).read_text()) for name in ("donor", "base", "hybrid")
    )
    added = {key: hybrid["image"].pop(key) for key in ("donors", "graft", "register")}
    assert hybrid == base
    assert added["donors"]["tiny"] == donor["image"]["base"]
    assert len(added["graft"]) == len(added["register"]) == 1
    for manifest in (donor, base):
        del manifest["image"], manifest["vllm"]
    assert donor == base
