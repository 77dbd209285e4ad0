"""A lab whose nodes keep images in different stores."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from deploy.lab.control import LabNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from deploy.lab.lifecycle import LabState

pytestmark = pytest.mark.lab


def test_one_image_has_two_engine_ids_and_the_same_layers(
    mixed_lab: LabState, run_container: Callable[..., str]
) -> None:
    own_store, containerd_store = (LabNode(mixed_lab.spec, n.name) for n in mixed_lab.nodes)
    assert [node.storage_driver for node in mixed_lab.nodes] == ["overlay2", "overlayfs"]
    assert mixed_lab.nodes[1].engine_version.startswith("26.")

    run_container(own_store, ["/usr/bin/true"])
    own_store.run(["docker", "save", "--output", "/run/image.tar", "text"])
    shutil.copy(own_store.root / "run/image.tar", containerd_store.root / "run/image.tar")
    containerd_store.run(["docker", "load", "--input", "/run/image.tar"])
    image, same_image = (
        json.loads(node.run(["docker", "image", "inspect", "text"]))[0]
        for node in (own_store, containerd_store)
    )
    assert image["Id"] != same_image["Id"]
    assert image["RootFS"] == same_image["RootFS"]
    program = "import sys; print(sys.version_info[:2])"
    versions = [
        run_container(node, ["/usr/bin/python3", "-c", program])
        for node in (own_store, containerd_store)
    ]
    assert versions[1] == "(3, 13)\n"  # it really is another machine's root


def test_the_tree_stays_as_it_was_made(mixed_lab: LabState) -> None:
    node = LabNode(mixed_lab.spec, "spark-b")
    node.run(["touch", "/etc/changed", "/var/lib/changed"])
    tree = mixed_lab.spec.tree
    assert tree is not None
    assert not list(tree.glob("*/changed")) + list(tree.glob("var/lib/changed"))
