"""A model's files to a second node, and their hashes: as `inv weights` does it, in the lab.

Both sides read files that are in the page cache and write to one disk, the nodes' own: so neither
the source's disk nor a real link limits them, while a Spark's would. The lab's link is the kernel's
own memory and both nodes share this machine's processors.
"""

from __future__ import annotations

import os
import shlex
import time
from contextlib import ExitStack
from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from builder.lock import ModelFile
from builder.progress import Silent
from deploy.actions import CopyModel
from deploy.edges.master import Destination
from deploy.edges.model import ModelFolder
from deploy.edges.ssh import NodeConnection
from deploy.edges.transfer import Watch, hashes
from deploy.edges.weights import NodeWeights
from deploy.lab.lifecycle import lab_up
from tests.bench.measure import alternate
from tests.bench.result import Limit, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deploy.lab.spec import NodeSpec
    from tests.bench.result import Samples
    from tests.bench.workplace import Workplace

FILES: Final = 8
SMALL_MB: Final = 64
LONG_MB: Final = 512
ROUNDS: Final = 3
FOLDER: Final = "/srv/models/bench"
LIMIT_S: Final = 1800
QUIET: Final = Watch(told=lambda _: None, stopped=lambda: False)


def measure(place: Workplace) -> Iterator[Result]:
    """The copy against rsync over ssh and against the disk alone."""
    with ExitStack() as stack:
        pair = Pair(place, stack)
        ours, theirs, disk = alternate((pair.copy, pair.rsync, pair.write), ROUNDS)
        size = f"{FILES} files of {pair.size_mb} MB"
        yield Result(
            name="weights-copy",
            what=f"{size} from node to node, hashed there and safe on its disk",
            yardstick="rsync -a over ssh on the same link, neither hashed nor synced",
            unit="s",
            ours=ours,
            theirs=theirs,
            limit=_limit(ours, theirs, disk),
            note="the sources are in the page cache; claimed: half of the time, or the disk's own",
        )
        yield Result(
            name="weights-disk",
            what=f"{size} from node to node, hashed there and safe on its disk",
            yardstick="dd of as many bytes to that disk alone, with fdatasync",
            unit="s",
            ours=ours,
            theirs=disk,
            note="how near the copy is to the disk's limit; nothing is claimed",
        )


def _limit(ours: Samples, theirs: Samples, disk: Samples) -> Limit:
    """Half of the yardstick's time, unless writing alone takes longer than that."""
    near_disk = 1.25 * disk.median / theirs.median
    del ours
    return Limit("ratio", max(0.5, round(near_disk, 2)))


def measure_hashing(place: Workplace) -> Iterator[Result]:
    """Hashing on a node against openssl there, in as many processes."""
    with ExitStack() as stack:
        pair = Pair(place, stack)
        ours, theirs = alternate((pair.hash, pair.openssl), 2 * ROUNDS)
        yield Result(
            name="hashing",
            what=f"SHA-256 of {FILES} files of {pair.size_mb} MB on a node, over ssh",
            yardstick=f"openssl dgst -sha256 there, {pair.processors} processes, over ssh",
            unit="s",
            ours=ours,
            theirs=theirs,
            limit=Limit("ratio", 1.11),
            note="the files are in the page cache; so 0.9 of openssl's rate is claimed",
        )


class Pair:
    """Two nodes of the lab, the first one with a model; both forget it afterwards."""

    def __init__(self, place: Workplace, stack: ExitStack) -> None:
        place.require_lab_machine()
        lab_up(place.lab, Silent())
        self.size_mb = LONG_MB if place.long else SMALL_MB
        self.processors = os.cpu_count() or 1
        self._config = place.lab.ssh_config
        self._source, self._target = (_weights(place, node, stack) for node in place.lab.nodes[:2])
        for node in (self._source, self._target):
            stack.callback(node.connection.run, ("rm", "-rf", FOLDER))
        make = (
            f"mkdir -p {FOLDER}; for i in $(seq {FILES}); do "
            f"head -c {self.size_mb * 10**6} /dev/urandom > {FOLDER}/w$i; done"
        )
        self._source.connection.run(("sh", "-c", make), timeout_s=LIMIT_S)
        paths = [f"{FOLDER}/w{number}" for number in range(1, FILES + 1)]
        found = hashes(self._source.connection, paths)
        self._files = tuple(
            ModelFile(
                path=path.rpartition("/")[2], size_bytes=self.size_mb * 10**6, digest=found[path]
            )
            for path in paths
        )
        self._paths = paths

    def copy(self, _round: int) -> float:
        """As `inv weights` copies, from asking what is there to the last proven file."""
        self._forget()
        action = CopyModel("b", "bench", "a", "", self._files)
        started = time.perf_counter()
        self._target.copy(action, self._source, QUIET)
        return time.perf_counter() - started

    def rsync(self, _round: int) -> float:
        """As a person would, from the one node to the other."""
        self._forget()
        ssh = shlex.join(("ssh", "-F", str(self._config)))
        target = f"{self._target.node.name}:{FOLDER}/"
        argv = ("rsync", "-a", "-e", ssh, *self._paths, target)
        self._target.connection.run(("mkdir", "-p", FOLDER))
        started = time.perf_counter()
        self._source.connection.run(argv, timeout_s=LIMIT_S)
        return time.perf_counter() - started

    def write(self, _round: int) -> float:
        """As many bytes to the target's disk, from nowhere."""
        self._forget()
        self._target.connection.run(("mkdir", "-p", FOLDER))
        count = FILES * self.size_mb
        argv = ("dd", "if=/dev/zero", f"of={FOLDER}/zeros", "bs=1M", f"count={count}")
        started = time.perf_counter()
        self._target.connection.run((*argv, "conv=fdatasync"), timeout_s=LIMIT_S)
        return time.perf_counter() - started

    def hash(self, _round: int) -> float:
        """As deploy hashes what it does not know yet."""
        started = time.perf_counter()
        hashes(self._source.connection, self._paths)
        return time.perf_counter() - started

    def openssl(self, _round: int) -> float:
        """With the quickest program there is for it."""
        argv = ("xargs", "-0", "-n", "1", "-P", str(self.processors), "openssl", "dgst", "-sha256")
        listed = "".join(f"{path}\0" for path in self._paths).encode()
        started = time.perf_counter()
        self._source.connection.run(argv, stdin=listed, timeout_s=LIMIT_S)
        return time.perf_counter() - started

    def _forget(self) -> None:
        """Nothing of the model is on the target, and nothing waits to be written there."""
        self._target.connection.run(("sh", "-c", f"rm -rf {FOLDER}; sync"), timeout_s=LIMIT_S)


def _weights(place: Workplace, node: NodeSpec, stack: ExitStack) -> NodeWeights:
    destination = Destination(node.name, node.name, place.lab.ssh_config, 10)
    connection = stack.enter_context(NodeConnection(destination))
    described: Any = SimpleNamespace(
        name=node.name, fabric=SimpleNamespace(address=IPv4Address(node.address))
    )
    unused: Any = None
    return NodeWeights(unused, described, connection, unused, ModelFolder(connection, FOLDER))
