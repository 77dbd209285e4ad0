"""Stacks of random layers: engines, umoci and buildah see the very tree that we say they hold."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from builder.edges.layout import write_layout
from builder.oci.dual import DualArchive
from deploy.lab.control import LabNode
from tests.fuzz.stacks import layers_of, sane
from tests.integration.stores.layout_tree import LIST_PROGRAM, Listing
from tests.listings import listing_below, listing_of, published_image

if TYPE_CHECKING:
    from deploy.lab.lifecycle import LabState

STACKS: Final = st.binary(min_size=30, max_size=120).map(
    lambda data: sane(layers_of(data, wild=False))
)
FEW: Final = settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
MANY: Final = settings(FEW, max_examples=150, derandomize=False)
MACHINE: Final = "/machine"
OF_THE_ENGINE: Final = ("/.dockerenv", "/dev", "/etc", "/proc", "/sys", MACHINE)


def run(*argv: str, cwd: str | None = None) -> str:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed: apt-get install {argv[0]}")
    done = subprocess.run(argv, cwd=cwd, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_umoci(layers: list[list[Any]]) -> None:
    if os.geteuid() != 0:
        pytest.skip("owners need root")
    published, image = published_image(layers)
    with TemporaryDirectory() as folder:
        write_layout(Path(folder, "image"), image, published.source.open_blob, name="v1")
        run("umoci", "unpack", "--image", f"{folder}/image:v1", f"{folder}/bundle")
        assert listing_below(Path(folder, "bundle", "rootfs")) == listing_of(published, image)


@FEW
@given(STACKS)
def test_umoci_unpacks_the_tree_that_we_say(layers: list[list[Any]]) -> None:
    check_umoci(layers)


@pytest.mark.slow
@MANY
@given(STACKS)
def test_umoci_unpacks_many_trees_that_we_say(layers: list[list[Any]]) -> None:
    check_umoci(layers)


def check_buildah(layers: list[list[Any]]) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    published, image = published_image(layers)
    with TemporaryDirectory() as folder:
        write_layout(Path(folder, "image"), image, published.source.open_blob, name="v1")
        store = (f"--root={folder}/root", f"--runroot={folder}/run", "--storage-driver=vfs")
        # relative: buildah makes an image name of the path, and random names can be none
        name = run("buildah", *store, "from", "oci:image:v1", cwd=folder).strip()
        try:
            mounted = run("buildah", *store, "mount", name).strip()
            assert listing_below(Path(mounted)) == listing_of(published, image)
        finally:
            run("buildah", *store, "rm", name)


@settings(FEW, max_examples=3)
@given(STACKS)
def test_buildah_mounts_the_tree_that_we_say(layers: list[list[Any]]) -> None:
    check_buildah(layers)


@pytest.mark.slow
@settings(MANY, max_examples=30)
@given(STACKS)
def test_buildah_mounts_many_trees_that_we_say(layers: list[list[Any]]) -> None:
    check_buildah(layers)


def check_engines(lab: LabState, layers: list[list[Any]]) -> None:
    """Load the stack on every node, and compare what a container of it sees."""
    published, image = published_image(layers)
    expected = listing_of(published, image)
    for name in ("spark-a", "spark-b"):
        node = LabNode(lab.spec, name)
        archive = node.root / "srv" / "stack.tar"
        dual = DualArchive(image, published.source.open_blob, "stack:v1")
        archive.write_bytes(b"".join(dual.chunks()))
        try:
            node.run(["docker", "load", "--quiet", "--input", "/srv/stack.tar"])
            assert listed(node) == expected, name
        finally:
            archive.unlink()
            node.run(["docker", "image", "rm", "--force", "stack:v1"])


def listed(node: LabNode) -> Listing:
    library = f"{MACHINE}/lib/x86_64-linux-gnu"
    python = (f"{library}/ld-linux-x86-64.so.2", "--library-path", library)
    options = (
        *("--rm", "--network=none", "--pull=never", f"--volume=/usr:{MACHINE}:ro"),
        *(f"--env=PYTHONHOME={MACHINE}", f"--entrypoint={python[0]}", "--workdir=/"),
    )
    program = (f"{MACHINE}/bin/python3", "-S", "-c", LIST_PROGRAM, *OF_THE_ENGINE)
    listing: Listing = json.loads(
        node.run(["docker", "run", *options, "stack:v1", *python[1:], *program])
    )
    return listing


@pytest.mark.lab
@settings(FEW, max_examples=5)
@given(layers=STACKS)
def test_containers_on_both_stores_see_the_tree_that_we_say(
    mixed_lab: LabState, layers: list[list[Any]]
) -> None:
    check_engines(mixed_lab, layers)


@pytest.mark.lab
@pytest.mark.slow
@settings(MANY, max_examples=60)
@given(layers=STACKS)
def test_containers_on_both_stores_see_many_trees_that_we_say(
    mixed_lab: LabState, layers: list[list[Any]]
) -> None:
    check_engines(mixed_lab, layers)
