"""The pair under test: what serves on its nodes, and what of a deploy is left there."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from builder import labels
from builder.current import check_lock
from builder.lockfile import lock_digest
from builder.progress import Silent
from deploy.guard import MARK
from deploy.lab.errors import LabCommandError
from deploy.lab.lifecycle import lab_up
from deploy.state import TRIAL
from deploy.together import together
from tests.faults.run import Run
from tests.integration.deploy.conftest import NODES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.deploy.conftest import Cluster

SETTLE_S: Final = 45
"""What a pair that was started again may take to load, and a node to notice a lost connection."""

OLD: Final = ".old"
MANY: Final = 6
"""How many generations are kept for a while."""

LOOK: Final = f"""
lock='{{{{.Label "{labels.LOCK_DIGEST}"}}}}'
docker ps --all --no-trunc --filter label={labels.CLUSTER}="$1" \\
  --format "container {{{{.Names}}}} {{{{.State}}}} {{{{.Image}}}} $lock"
docker images --format 'image {{{{.Repository}}}}:{{{{.Tag}}}}'
grep -as '^{MARK} ' /proc/[0-9]*/cmdline | tr '\\0' ' ' | sed 's/^/guard /'
ss -ltnpH | grep '"sshd"' | grep -v ':22 ' | sed 's/^/tunnel /'
true
"""


@dataclass(frozen=True, order=True)
class Standing:
    """A container on a node."""

    node: str
    name: str
    running: bool
    image: str
    lock: str


@dataclass(frozen=True)
class Seen:
    """The nodes at one moment; `other` are lines about guards, tunnels and tags."""

    containers: tuple[Standing, ...]
    images: tuple[tuple[str, str], ...]
    other: tuple[str, ...]

    @property
    def running(self) -> tuple[Standing, ...]:
        return tuple(item for item in self.containers if item.running)

    @property
    def guards(self) -> tuple[str, ...]:
        return tuple(line for line in self.other if MARK in line)

    @property
    def lock(self) -> str:
        """The lock of the pair that runs; empty if none does on all nodes."""
        locks = {item.lock for item in self.running}
        whole = [item.node for item in self.running] == list(NODES)
        return locks.pop() if whole and len(locks) == 1 else ""

    @property
    def leftovers(self) -> list[str]:
        """What no deploy may leave. An image of its own is kept for the next one, until inv gc."""
        left = [f"{item.node}: {item.name}" for item in self.containers if TRIAL in item.name]
        for node, image in self.images:
            if image.startswith("127.0.0.1:") or image.endswith(TRIAL):
                left.append(f"{node}: image {image}")
        return [*left, *self.other]


@dataclass
class Pair:
    """A cluster of which every deploy is another one: image, model and command line change."""

    cluster: Cluster
    outcomes: Path
    case: str = ""
    variant: int = 0
    newest: int = 0
    locks: dict[str, int] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def change(self, *, model: bool = True) -> None:
        """Lock what was never deployed; with `model`, a model file differs too."""
        self.newest += 1
        self.variant = self.newest
        folder = self.cluster.folder / "examples/lab"
        texts = (("chat_template.jinja", "{{# {} #}}"), ("model/config.json", "{}"))
        for name, text in texts if model else texts[:1]:
            file = folder / name
            kept = file.read_text().split("\n\n\n")[0]
            blank = " " * self.variant if name.endswith("json") else text.format(self.variant)
            file.write_text(f"{kept}\n\n\n{blank}")
        self.cluster.change("container.env", VARIANT=str(self.variant))
        self.locks[lock_digest(check_lock(self.cluster.file).lock)] = self.variant

    def trim(self) -> None:
        """Keep two generations when there are many: every look asks about each of them.

        No image is left then but theirs.
        """
        kept = [item for item in self.see().containers if OLD in item.name]
        if len(kept) > MANY * len(NODES):
            self.collect()

    def collect(self) -> None:
        """Keep two generations, and see that no image is left but theirs."""
        run = self.run("gc", "--keep", "1")
        assert run.end() == 0, run.said
        seen = self.see()
        used = {(item.node, item.image) for item in seen.containers}
        ours = {item for item in seen.images if item[1].startswith(f"sparklock/{self.name}:")}
        assert ours <= used, (ours - used, run.said)
        assert len(seen.containers) <= 2 * len(NODES), seen.containers

    def serve_anew(self, *, model: bool = True) -> None:
        """Change, and deploy that without any fault."""
        self.change(model=model)
        run = self.run("deploy")
        assert run.end() == 0, run.said

    def run(self, task: str, *more: str, hold: str = "-") -> Run:
        run = Run([task, "--file", str(self.cluster.file), *more], hold)
        self.runs.append(run)
        return run

    def end_runs(self) -> None:
        """Kill what a test that failed or was ended left at work; it could go on meanwhile."""
        while self.runs:
            self.runs.pop().kill()

    def recover(self) -> None:
        """After a fault that nothing mended: a new pair serves, so that the next one counts."""
        self.end_runs()
        lab_up(self.cluster.lab.spec, Silent())
        self.serve_anew()

    def see(self) -> Seen:
        """What is on the nodes now."""
        said = together({node: partial(self._look, node) for node in NODES})
        containers, images, other = [], [], []
        for node, lines in said.items():
            for line in lines:
                kind, _, rest = line.partition(" ")
                if kind == "container":
                    name, state, image, lock = (*rest.split(), "")[:4]
                    containers.append(Standing(node, name, state == "running", image, lock))
                elif kind == "image":
                    images.append((node, rest))
                else:
                    other.append(f"{node}: {line}")
        return Seen(tuple(sorted(containers)), tuple(sorted(images)), tuple(other))

    def _look(self, node: str) -> list[str]:
        return self.cluster.node(node).run(["sh", "-c", LOOK, "look", self.name]).splitlines()

    @property
    def name(self) -> str:
        return self.cluster.folder.name

    def outcome(self) -> tuple[int | None, list[str]]:
        """The variant that answers a completion, None if none does, and what is left over.

        Both are given time: a pair to load, and nodes to notice that a connection is gone.
        """
        deadline = time.monotonic() + SETTLE_S
        while True:
            seen = self.see()
            answers = bool(seen.lock) and self._answers()
            waits = seen.other or (seen.lock and not answers)
            if not waits or time.monotonic() > deadline:
                return self.locks[seen.lock] if answers else None, seen.leftovers
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            return self.cluster.answers()
        except LabCommandError:
            return False
