from __future__ import annotations

import ast
import json
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
import tomlkit

from builder.digest import Digest, digest_bytes
from builder.edges.layout import write_layout
from deploy.lab.images import COMMAND, LAB, ImageRecipeError, make_image, manifests, pin
from tests.standin import BASE, DONOR, GRAFTED, MODEL, REGISTRY

if TYPE_CHECKING:
    from pathlib import Path

    from deploy.lab.images import LabImage

ROOT = LAB.parents[1]
IMAGES = ("base", "donor")
MAKER = LAB / "src" / "model" / "make_model.py"


def _tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _members(image: LabImage) -> list[dict[str, tarfile.TarInfo]]:
    """The entries of each layer, by name, as Python's own reader sees them."""
    found = []
    for layer in image.image.layers:
        with tarfile.open(fileobj=BytesIO(image.blobs[layer.diff_id])) as archive:
            found.append({member.name: member for member in archive})
    return found


@pytest.mark.parametrize("name", IMAGES)
def test_the_committed_layout_is_what_its_sources_make(name: str, tmp_path: Path) -> None:
    made = make_image(LAB / "src" / name)
    write_layout(tmp_path / name, made.image, made.open_blob)
    assert _tree(LAB / "images" / name) == _tree(tmp_path / name), f"run {COMMAND}"


def _offered() -> dict[str, Digest]:
    """The digest of each committed layout, by its index alone."""
    indexes = {
        name: json.loads((LAB / "images" / name / "index.json").read_bytes()) for name in IMAGES
    }
    return {name: Digest(index["manifests"][0]["digest"]) for name, index in indexes.items()}


@pytest.mark.parametrize("path", manifests(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_manifest_pins_the_committed_layouts(path: Path) -> None:
    text = path.read_text()
    assert pin(text, _offered()) == text, f"run {COMMAND}"


def test_pinning_changes_the_digests_of_the_labs_images_and_nothing_else() -> None:
    before = tomlkit.parse((ROOT / "cluster.toml").read_text()).unwrap()
    others = {"base": digest_bytes(b"base"), "donor": digest_bytes(b"donor")}
    after = tomlkit.parse(pin((ROOT / "cluster.toml").read_text(), others)).unwrap()
    assert after["image"]["base"].pop("digest") == others["base"]
    assert after["image"]["donors"]["tiny"].pop("digest") == others["donor"]
    del before["image"]["base"]["digest"], before["image"]["donors"]["tiny"]["digest"]
    assert after == before


def test_sources_that_are_not_the_labs_are_left_unpinned() -> None:
    text = '[image]\n[image.base] # keep\nsource = "registry.example/lab/images:base"\n'
    assert pin(text, {}) == text


@pytest.mark.parametrize("name", IMAGES)
def test_checkout_modes_times_caches_and_umask_have_no_say(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "src"
    shutil.copytree(LAB / "src", copy)
    for path in copy.rglob("*"):
        path.chmod(0o700)
        os.utime(path, (1, 1))
    cache = copy / "base/usr/local/lib/python3.12/dist-packages/vllm/__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / "envs.cpython-311.pyc").write_bytes(b"stale")
    umask = os.umask(0o077)
    try:
        made = make_image(copy / name)
    finally:
        os.umask(umask)
    assert made.image.manifest.raw == make_image(LAB / "src" / name).image.manifest.raw


def test_a_recipe_that_names_a_missing_file_or_an_unknown_key_says_so(tmp_path: Path) -> None:
    recipe = tmp_path / "image.toml"
    start = 'platform = "linux/amd64"\nepoch = 1\nconfig = {}\n[[layers]]\ncomment = "x"\n'
    recipe.write_text(start + 'copies = [{ source = "nothing", target = "a" }]\n')
    with pytest.raises(ImageRecipeError, match="there is no nothing"):
        make_image(tmp_path)
    recipe.write_text(start + 'colour = "red"\n')
    with pytest.raises(ImageRecipeError, match="colour"):
        make_image(tmp_path)


def test_the_base_has_the_launcher_and_mount_points_but_not_the_model() -> None:
    root, vllm, workspace = _members(make_image(LAB / "src" / "base"))
    assert root["tmp"].mode == 0o1777
    assert {root[name].linkname for name in ("bin", "lib", "lib64", "sbin")} == {
        "usr/bin",
        "usr/lib",
        "usr/lib64",
        "usr/sbin",
    }
    assert root["usr/bin"].isdir()
    assert not [name for name in root if name.startswith("usr/bin/")]
    assert workspace["workspace/vllm/run-cluster-node.sh"].mode == 0o755
    assert vllm["usr/local/bin/vllm"].mode == 0o755
    assert not [name for name in vllm if "tiny_spark" in name]
    assert "TinySpark" not in (BASE / REGISTRY).read_text()
    stale = "vllm/model_executor/models/__pycache__/registry.cpython-312.pyc"
    assert f"usr/local/lib/python3.12/dist-packages/{stale}" in workspace


def test_the_donor_has_the_model_in_its_own_place_and_no_launcher() -> None:
    layers = _members(make_image(LAB / "src" / "donor"))
    site = "opt/venv/lib/python3.12/site-packages"
    assert len(layers) == 3
    for name in GRAFTED:
        assert f"{site}/{name}" in layers[2]
    hidden = [name for name in layers[2] if "/.wh." in name]
    assert hidden == [f"{site}/vllm/model_executor/models/.wh.tiny_spark_draft.py"]
    assert hidden[0].replace(".wh.", "") in layers[1]
    assert layers[2]["app/entrypoint.sh"].mode == 0o755
    assert not [name for layer in layers for name in layer if "run-cluster-node" in name]


@pytest.mark.parametrize("site", [BASE, DONOR])
def test_the_metadata_states_the_packages_version(site: Path) -> None:
    version = runpy.run_path(str(site / "vllm/version.py"))["__version__"]
    assert "+standin" in version
    assert f"Version: {version}\n" in (site / f"vllm-{version}.dist-info/METADATA").read_text()


def test_the_donor_serves_the_model_by_itself(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    shutil.copytree(BASE, packages)
    shutil.copytree(DONOR, packages, dirs_exist_ok=True)
    code = (
        "from vllm.model_executor.models import ModelRegistry\n"
        "print(ModelRegistry.resolve_model_cls(['TinySparkForCausalLM'])[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "TinySparkForCausalLM\n"


def test_the_model_is_what_its_script_makes() -> None:
    made = runpy.run_path(str(MAKER))["files"]()
    assert made == _tree(MODEL), f"run python {MAKER.relative_to(ROOT)}"


@pytest.mark.parametrize("folder", [BASE, DONOR, MAKER.parent])
def test_the_sources_are_python_3_9(folder: Path) -> None:
    for path in sorted(folder.rglob("*.py")):
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 9))
