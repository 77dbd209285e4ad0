"""A changed hybrid to a node that has the base: only what is new may travel, and at once."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from builder.edges.files import read_manifest
from builder.progress import Silent
from deploy.actions import PullImage
from deploy.edges.master import Destination
from deploy.edges.node import RemoteNode, Supplies
from deploy.edges.ssh import NodeConnection
from deploy.lab.control import LabNode
from deploy.supplying import supply_of
from deploy.wanted import wanted
from tests.bench.errors import MeasuredCommandError
from tests.bench.measure import alternate
from tests.bench.registry import REPOSITORY, plain_registry
from tests.bench.result import Limit, Result, Samples
from tests.bench.workplace import LARGE_MB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from builder.reports import Built
    from deploy.wanted import WantedImage
    from tests.bench.registry import Registry
    from tests.bench.workplace import Workplace

ROUNDS: Final = 7
SLOW_ROUNDS: Final = 3
CHANGE_BYTES: Final = 16_000
ALLOWED_BYTES: Final = 10_000
ALLOWED_FACTOR: Final = 1.05
FLAT_SMALL_MB: Final = 100
FLAT_LONG_MB: Final = 2000
WHAT: Final = f"a changed hybrid, as deploy brings it to a node that has the {LARGE_MB} MB base"


def measure(place: Workplace) -> Iterator[Result]:
    """Our way against a bare pull and against save and load; and the bytes that travelled."""
    place.pair()  # so both nodes have the base
    with ExitStack() as stack:
        registry = stack.enter_context(plain_registry(place.folder))
        way = stack.enter_context(Ways(place, registry))
        ours, pull = alternate((way.deliver, way.pull), ROUNDS)
        yield Result(
            name="delivery-pull",
            what=WHAT,
            yardstick=f"docker pull of an equal image through ssh -R from {registry.name}",
            unit="s",
            ours=ours,
            theirs=pull,
            limit=Limit("ratio", 2),
            note="the yardstick's tunnel is open before; ours is opened, used, and closed",
        )
        ours, load = alternate((way.deliver, way.save_and_load), SLOW_ROUNDS)
        yield Result(
            name="delivery-load",
            what=WHAT,
            yardstick="docker save | ssh NODE docker load of an equal image",
            unit="s",
            ours=ours,
            theirs=load,
            limit=Limit("ratio", 0.1),
            note="so ours is claimed to be ten times faster",
        )
        yield Result(
            name="delivery-bytes",
            what="bytes to the node for it, as the network link counts them",
            yardstick=f"{ALLOWED_BYTES} + {ALLOWED_FACTOR} x the new layers",
            unit="bytes",
            ours=Samples(tuple(way.sent_bytes)),
            theirs=Samples(tuple(way.allowed_bytes)),
            limit=Limit("ratio", 1),
            note="with the engine's API, ssh and TCP around the blobs",
        )
        yield from _flat(place, registry, stack)


def _flat(place: Workplace, registry: Registry, stack: ExitStack) -> Iterator[Result]:
    """The same with a small and a large base, each of which the node has."""
    large_mb = FLAT_LONG_MB if place.long else LARGE_MB
    large = stack.enter_context(Ways(place, registry, name="flat-large", base_mb=large_mb))
    small = stack.enter_context(Ways(place, registry, name="flat-small", base_mb=FLAT_SMALL_MB))
    for way in (large, small):
        way.deliver(0)  # so the node has its base
    ours, theirs = alternate((large.deliver, small.deliver), ROUNDS)
    yield Result(
        name="delivery-flat",
        what=f"a changed hybrid to a node that has the base of {large_mb} MB",
        yardstick=f"the same with a base of {FLAT_SMALL_MB} MB",
        unit="s",
        ours=ours,
        theirs=theirs,
        limit=Limit("ratio", 1.3),
        note="what travels and what is unpacked is the same, so the base's size must not show",
    )


class Ways:
    """The ways of an image to the last node; every call takes a new image. A context manager."""

    def __init__(
        self,
        place: Workplace,
        registry: Registry,
        *,
        name: str = "delivery",
        base_mb: int = LARGE_MB,
    ) -> None:
        self.sent_bytes: list[float] = []
        self.allowed_bytes: list[float] = []
        self._place = place
        self._registry = registry
        self._cluster = place.cluster(name, base_mb=base_mb)
        self._manifest = read_manifest(self._cluster.file).manifest
        self._random = random.Random(0)  # noqa: S311 - a change of a file, no secret
        self._link = Path("/sys/class/net", place.lab.uplinks[0], "statistics/tx_bytes")
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        config = self._place.lab.ssh_config
        first, last = self._manifest.nodes
        with ExitStack() as stack:
            self._first = stack.enter_context(RemoteNode(self._manifest, first, config))
            self._last = stack.enter_context(RemoteNode(self._manifest, last, config))
            destination = Destination(last.name, last.ssh, config, connect_timeout_s=10)
            self._shell = stack.enter_context(NodeConnection(destination))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def deliver(self, _round: int) -> float:
        """Seconds of our way: what deploy does when its plan says to pull the image."""
        built = self._changed()
        before_bytes = self._link_bytes()
        started = time.perf_counter()
        bring(self._last, built)
        elapsed_s = time.perf_counter() - started
        self.sent_bytes.append(self._link_bytes() - before_bytes)
        new_bytes = built.lock.outputs.new_bytes
        self.allowed_bytes.append(ALLOWED_BYTES + ALLOWED_FACTOR * new_bytes)
        return elapsed_s

    def pull(self, _round: int) -> float:
        """Seconds of `docker pull` on the node, through a tunnel that is there already."""
        built = self._changed()
        with (
            self._registry.serve(built) as port,
            self._shell.forward_remote(port) as far_port,
        ):
            digest = built.image.manifest.descriptor.digest
            argv = ("docker", "pull", "--quiet", f"127.0.0.1:{far_port}/{REPOSITORY}@{digest}")
            started = time.perf_counter()
            self._shell.run(argv)
            return time.perf_counter() - started

    def save_and_load(self, _round: int) -> float:
        """Seconds of the other way that people take, from the first node's engine to the last.

        The engine is read on its own socket, so ssh is crossed once.
        """
        image = bring(self._first, self._changed())
        socket = LabNode(self._place.lab, self._first_name).root / "run/docker.sock"
        config, last = self._place.lab.ssh_config, self._manifest.nodes[-1].ssh
        started = time.perf_counter()
        save_and_load(config, last, f"unix://{socket}", image.reference)
        return time.perf_counter() - started

    @property
    def _first_name(self) -> str:
        return self._manifest.nodes[0].name

    def _changed(self) -> Built:
        """An image that no node has: one file of ours is another."""
        noise = self._random.randbytes(CHANGE_BYTES // 2).hex()
        return self._cluster.with_template(f"{{# {noise} #}}\n")

    def _link_bytes(self) -> int:
        return int(self._link.read_text())


def bring(node: RemoteNode, built: Built) -> WantedImage:
    """The image, once it is on a node the way that deploy brings it."""
    image = wanted(built.loaded.manifest, built.lock, built.lock_digest).image
    node.supplies = Supplies(supply_of(built), None)
    node.perform(PullImage("", "", image, 0), Silent(), threading.Event())
    return image


def save_and_load(ssh_config: Path, node: str, engine: str, image: str) -> None:
    """Copy an image from an engine to a node, through a pipe."""
    save = ["docker", "-H", engine, "save", image]
    load = ["ssh", "-F", str(ssh_config), node, "docker", "load", "--quiet"]
    with subprocess.Popen(save, stdout=subprocess.PIPE) as saving:
        loaded = subprocess.run(load, stdin=saving.stdout, capture_output=True, check=False)
    for argv, status in ((save, saving.returncode), (load, loaded.returncode)):
        if status:
            raise MeasuredCommandError(argv, status, loaded.stderr.decode(errors="replace"))
