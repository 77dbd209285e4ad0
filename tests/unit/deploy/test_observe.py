from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, cast

from deploy.edges.observe import observe
from deploy.edges.ssh import Completed
from deploy.state import ContainerFacts, EngineFacts, ImageStore
from tests.unit.deploy.clusters import wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.state import ImageFacts

LISTENS = "/proc/net/tcp:   0: 00000000:1F40 00000000:0000 0A\n"


@dataclass
class NodeWhoseRankEnds:
    """Connection, engine and model folder of a node whose rank ends once it has been listed."""

    rank_runs: bool = True
    sockets_read: Event = field(default_factory=Event)

    def run(self, argv: Sequence[str], *, stdin: bytes) -> Completed:
        assert b"/proc/net/tcp" in stdin
        self.sockets_read.set()
        sockets = LISTENS if self.rank_runs else ""
        return Completed(tuple(argv), 0, f"\x1efiles\n{sockets}".encode(), "")

    def image(self, name: str) -> ImageFacts | None:
        del name
        return None

    def facts(self) -> EngineFacts:
        return EngineFacts("20.10.24", ImageStore.GRAPH_DRIVER, "linux/arm64")

    def others(self, cluster: str) -> tuple[()]:
        del cluster
        return ()

    def caches(self, cluster: str) -> tuple[()]:
        del cluster
        return ()

    def containers(self, cluster: str) -> tuple[ContainerFacts, ...]:
        del cluster
        self.sockets_read.wait(0.2)  # whoever reads both at once reads the sockets first
        self.rank_runs = False
        return ()

    @property
    def staged(self) -> frozenset[str]:
        return frozenset()

    @property
    def hidden(self) -> str:
        return ""

    @property
    def kept_for(self) -> frozenset[str]:
        return frozenset()

    def readiness(self, files: object) -> tuple[None, int]:
        del files
        return None, 0

    def observe(self, files: object) -> tuple[tuple[()], None]:
        del files
        return (), None


def test_a_rank_that_ends_meanwhile_leaves_no_socket_that_seems_somebody_elses() -> None:
    goal, node = wanted(), cast("Any", NodeWhoseRankEnds())
    state = observe(goal, goal.manifest.head, node, node, node)
    assert state.containers == ()
    assert state.listeners == ()
