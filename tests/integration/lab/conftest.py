"""Containers without an image from anywhere: the lab's images hold text, and so does this one."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from deploy.lab.control import LabNode

FOLDERS = ("usr/bin", "usr/lib", "usr/lib64", "tmp")
LINKS = ("bin", "lib", "lib64")


@pytest.fixture
def run_container() -> Callable[..., str]:
    """Runs a program of the machine in a container; what it printed, or the container's id."""
    return _run_container


def _run_container(node: LabNode, argv: Sequence[str], *options: str) -> str:
    if not node.run(["docker", "images", "--quiet", "text"]):
        _make_image(node)
    mounts = (f"--volume=/{folder}:/{folder}:ro" for folder in FOLDERS[:3])
    fixed = ("--rm", "--init", "--network=host", *mounts)
    return node.run(["docker", "run", *fixed, *options, "text", *argv])


def _make_image(node: LabNode) -> None:
    tree = node.root / "run" / "tree"
    for folder in FOLDERS:
        (tree / folder).mkdir(parents=True)
    for name in LINKS:
        (tree / name).symlink_to(f"usr/{name}")
    subprocess.run(["tar", "-C", str(tree), "-cf", f"{tree}.tar", "."], check=True)
    node.run(["docker", "import", "/run/tree.tar", "text"])
