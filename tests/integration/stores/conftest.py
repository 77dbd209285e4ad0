"""A pair whose nodes keep images in different stores, with the embedded default on both."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from builder import pipeline as builder
from builder.progress import Silent
from tests.integration.stores.layout_tree import LIST_PROGRAM, Listing, listing_of_layout
from tests.integration.verify.conftest import locked_pair

if TYPE_CHECKING:
    from builder.lock import Lock
    from deploy.lab.lifecycle import LabState
    from tests.integration.verify.conftest import Pair

GRAPH_DRIVER: Final = "spark-a"
CONTAINERD: Final = "spark-b"
MACHINE: Final = "/machine"
"""Where the machine's /usr is in a container that lists files: not over the image's own /usr."""
OF_THE_ENGINE: Final = ("/.dockerenv", "/dev", "/etc", "/proc", "/sys", MACHINE)
"""What an engine adds to every container. The lab's images have no /etc of their own."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The pair, deployed, and what is in each engine's image store."""

    pair: Pair
    lock: Lock
    built: Listing

    @property
    def image(self) -> str:
        """The image's name on the nodes."""
        return f"sparklock/lab:{self.lock.outputs.manifest_digest.removeprefix('sha256:')[:12]}"

    def inspect(self, node: str) -> dict[str, Any]:
        """What an engine says of the image."""
        text = self.pair.node(node).run(["docker", "image", "inspect", self.image])
        (document,) = json.loads(text)
        found: dict[str, Any] = document
        return found

    def listing(self, node: str) -> Listing:
        """Every path that a container of the image has, but for what the engine adds."""
        library = f"{MACHINE}/lib/x86_64-linux-gnu"
        python = (
            f"{library}/ld-linux-x86-64.so.2",
            "--library-path",
            library,
            f"{MACHINE}/bin/python3",
        )
        options = (
            *("--rm", "--network=none", "--pull=never", f"--volume=/usr:{MACHINE}:ro"),
            *(f"--env=PYTHONHOME={MACHINE}", f"--entrypoint={python[0]}"),
        )
        program = ("-S", "-c", LIST_PROGRAM, *OF_THE_ENGINE)
        argv = ["docker", "run", *options, self.image, *python[1:], *program]
        listing: Listing = json.loads(self.pair.node(node).run(argv))
        return listing


@pytest.fixture(scope="module")
def mixed_pair(mixed_lab: LabState, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The embedded default turned to the mixed lab, locked and not deployed."""
    return locked_pair(mixed_lab, tmp_path_factory.mktemp("stores"))


def deployed(pair: Pair) -> Stores:
    """The pair as its lock says now, with the tree that was built for it."""
    folder = pair.manifest_path.parent
    layout = folder / "layout" / str(len(list(folder.glob("layout/*"))))
    built = builder.build(pair.manifest_path, Silent(), output=layout)
    pair.deploy()
    return Stores(pair, built.lock, listing_of_layout(layout))
