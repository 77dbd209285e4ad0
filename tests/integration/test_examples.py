"""Every example is a manifest without problems; the one of real nodes says what it still lacks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from builder.edges.files import read_manifest

if TYPE_CHECKING:
    from builder.manifest import ClusterManifest

ROOT: Final = Path(__file__).resolve().parents[2]
MANIFESTS: Final = sorted(ROOT.glob("examples/**/cluster.toml"))
SPARKS: Final = ROOT / "examples" / "qwen3.5-two-sparks" / "cluster.toml"


def _lock(folder: Path) -> subprocess.CompletedProcess[str]:
    """What `inv lock` in the folder said and how it ended."""
    argv = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), "lock"]
    return subprocess.run(
        argv,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "DOCKER_HOST": f"unix://{folder}/no-engine.sock"},
    )


@pytest.fixture(scope="module")
def sparks() -> ClusterManifest:
    return read_manifest(SPARKS).manifest


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.parent.name)
def test_an_example_has_no_problem(path: Path) -> None:
    assert read_manifest(path).manifest.world_size == 2


def test_the_real_example_invents_no_digest(sparks: ClusterManifest) -> None:
    assert sparks.image.base.digest is None
    assert [donor.digest for donor in sparks.image.donors.values()] == [None]
    assert re.search("sha256:[0-9a-f]", SPARKS.read_text()) is None


def test_the_real_example_is_two_gb10_nodes_with_both_halves_of_a_port(
    sparks: ClusterManifest,
) -> None:
    assert sparks.image.platform == "linux/arm64"
    assert sparks.serve.tensor_parallel == len(sparks.nodes) == 2
    for node in sparks.nodes:
        assert node.fabric is not None
        assert node.fabric.hcas == ("rocep1s0f1", "roceP2p1s0f1")
        assert node.fabric.netdevs == ("enp1s0f1np1", "enP2p1s0f1np1")
    assert sparks.container.devices == ("/dev/infiniband",)


def test_every_module_that_the_real_example_registers_is_grafted(sparks: ClusterManifest) -> None:
    grafted = {file for graft in sparks.image.grafts for file in graft.files}
    for register in sparks.image.registers:
        folder = register.file.rpartition("/")[0]
        values = register.entries.values() if isinstance(register.entries, dict) else ()
        modules = {value[0] for value in values if isinstance(value, tuple)}
        assert {f"{folder}/{module}.py" for module in modules} <= grafted
        dotted = {value for value in values if isinstance(value, str) and "." in value}
        assert {f"{name.replace('.', '/').removeprefix('vllm/')}.py" for name in dotted} <= grafted
        assert modules or dotted or register.table in ("_CONFIG_REGISTRY", "__all__")


def test_locking_the_real_example_says_what_it_lacks_and_writes_nothing(tmp_path: Path) -> None:
    shutil.copy(SPARKS, tmp_path)
    ended = _lock(tmp_path)
    assert ended.returncode == 4, ended.stderr
    assert ": image.base.source: no Docker engine answers on this machine" in ended.stderr
    assert f"expected: an engine at unix://{tmp_path}/no-engine.sock" in ended.stderr
    assert 'add: node = "NAME"' in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "lockfile.json").exists()


def test_a_layout_in_its_place_is_asked_for_by_its_digest(tmp_path: Path) -> None:
    # with the images copied as the manifest's comments say, only the pins are missing
    images = tmp_path / "images"
    shutil.copytree(ROOT / "examples/lab/images/base", images / "base")
    shutil.copytree(ROOT / "examples/lab/images/donor", images / "donor")
    text = SPARKS.read_text().replace('"linux/arm64"', '"linux/amd64"')
    for name, source in (
        ("base", "docker:vllm-node:latest"),
        ("donor", "docker.io/hellohal2064/vllm-qwen3.5-gb10:latest"),
    ):
        assert text.count(f'source = "{source}"') == 1
        text = text.replace(f'source = "{source}"', f'source = "oci:images/{name}"')
    (tmp_path / "cluster.toml").write_text(text)
    ended = _lock(tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "image.base: the image is not pinned" in ended.stderr
    assert "image.donors.qwen35: the image is not pinned" in ended.stderr
    assert ended.stderr.count('add: digest = "sha256:') == 2
