"""An image that no node has: what limits it, and how it compares with what people do."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import tomlkit

from builder import pipeline as builder
from builder.progress import Silent
from deploy.edges.master import Destination
from deploy.edges.node import RemoteNode
from deploy.edges.ssh import NodeConnection
from deploy.lab.control import LabNode
from deploy.lab.lifecycle import lab_up
from deploy.lab.node_init import RECORD_FILE
from deploy.lab.nodes import running
from tests.bench.base_image import write_base
from tests.bench.delivery import bring, save_and_load
from tests.bench.errors import MeasuredCommandError
from tests.bench.measure import alternate, await_success
from tests.bench.registry import PROGRAM, REPOSITORY, DebianRegistry, plain_registry
from tests.bench.result import Limit, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from builder.reports import Built
    from tests.bench.workplace import Workplace

LAYERS: Final = 8
SIZE_MB: Final = 160
LONG_MB: Final = 2000
PULL_S: Final = 1800
SPARKRUN: Final = "SPARKRUN_PYTHON"
"""The variable with a Python 3.12 that has sparkrun, which is no dependency of ours."""

SPARKRUN_PROGRAM: Final = """
import sys
from sparkrun.containers.distribute import distribute_image_from_local
image, host, config = sys.argv[1:]
failed = distribute_image_from_local(image, [host], ssh_options=["-F", config], offline=True)
sys.exit(f"failed: {failed}" if failed else 0)
"""


def measure(place: Workplace) -> Iterator[Result]:
    """Two nodes at once against their engines alone; one node against save and load."""
    place.require_lab_machine()
    lab_up(place.lab, Silent())
    size_mb = LONG_MB if place.long else SIZE_MB
    what = f"a first delivery of {size_mb} MB in {LAYERS} layers"
    with ExitStack() as stack:
        registry = stack.enter_context(plain_registry(place.folder))
        first = stack.enter_context(deliveries(place, size_mb))
        if isinstance(registry, DebianRegistry):
            pulls = stack.enter_context(first.engines_alone(registry))
            ours, alone = alternate((first.both, pulls), rounds=2)
            yield Result(
                name="first-engines",
                what=f"{what} to two nodes at once",
                yardstick=f"docker pull on both at once from {PROGRAM} on their own loopback",
                unit="s",
                ours=ours,
                theirs=alone,
                limit=Limit("ratio", 1.5),
                note="the yardstick has neither ssh nor a link: what the engines take to unpack it",
            )
        ours, load = alternate((first.one, first.save_and_load), rounds=2)
        yield Result(
            name="first-load",
            what=f"{what} to one node",
            yardstick="docker save | ssh NODE docker load",
            unit="s",
            ours=ours,
            theirs=load,
            limit=Limit("ratio", 1),
        )
        if SPARKRUN in os.environ:
            ours, theirs = alternate((first.one, first.sparkrun), rounds=2)
            yield Result(
                name="first-sparkrun",
                what=f"{what} to one node",
                yardstick="sparkrun's distribute_image_from_local",
                unit="s",
                ours=ours,
                theirs=theirs,
                limit=Limit("ratio", 1),
                note="its own function, called as its command does, with no model to bring",
            )


@contextmanager
def deliveries(place: Workplace, size_mb: int) -> Iterator[First]:
    """An image, and connections to the lab's nodes, for as long as it is measured."""
    built, config = _built(place, size_mb), place.lab.ssh_config
    nodes = built.loaded.manifest.nodes
    with ExitStack() as stack:
        remote = [
            stack.enter_context(RemoteNode(built.loaded.manifest, node, config)) for node in nodes
        ]
        shells = [
            stack.enter_context(NodeConnection(Destination(node.name, node.ssh, config, 10)))
            for node in nodes
        ]
        yield First(place, built, remote, shells)


class First:
    """Deliveries to the lab's nodes, after each of which they have nothing again."""

    def __init__(
        self,
        place: Workplace,
        built: Built,
        remote: Sequence[RemoteNode],
        shells: Sequence[NodeConnection],
    ) -> None:
        self._place = place
        self._built = built
        self._remote = remote
        self._shells = shells
        self._nodes = [LabNode(place.lab, node.name) for node in place.lab.nodes]

    def both(self, _round: int) -> float:
        """Seconds of our way to all nodes at once."""
        return self._timed([partial(bring, node, self._built) for node in self._remote])

    def one(self, _round: int) -> float:
        """Seconds of our way to the last node."""
        return self._timed([partial(bring, self._remote[-1], self._built)])

    @contextmanager
    def engines_alone(self, registry: DebianRegistry) -> Iterator[Callable[[int], float]]:
        """Seconds of a pull on every node, from a registry in its own network, all at once."""
        with registry.serve(self._built) as port, ExitStack() as stack:
            for node in self._nodes:
                config = self._place.folder / "registry.yml"
                stack.enter_context(_registry_in(node, config, port))
            digest = self._built.image.manifest.descriptor.digest
            argv = ("docker", "pull", "--quiet", f"127.0.0.1:{port}/{REPOSITORY}@{digest}")
            pulls = [partial(shell.run, argv, timeout_s=PULL_S) for shell in self._shells]
            yield lambda _round: self._timed(pulls)

    def save_and_load(self, _round: int) -> float:
        """Seconds of save and load, from the first node's engine to the last node."""
        return self._from_first(
            partial(save_and_load, self._place.lab.ssh_config, self._nodes[-1].name)
        )

    def sparkrun(self, _round: int) -> float:
        """Seconds of sparkrun, for which the first node's engine is that of this machine."""

        def distribute(engine: str, image: str) -> None:
            argv = [os.environ[SPARKRUN], "-c", SPARKRUN_PROGRAM, image, self._nodes[-1].name]
            argv.append(str(self._place.lab.ssh_config))
            home = str(self._place.folder / "home")  # it keeps caches and settings there
            own = {**os.environ, "DOCKER_HOST": engine, "HOME": home}
            done = subprocess.run(argv, env=own, capture_output=True, check=False)
            if done.returncode:
                said = done.stderr.decode(errors="replace")
                raise MeasuredCommandError(argv[:1], done.returncode, said)

        return self._from_first(distribute)

    def _from_first(self, copy: Callable[[str, str], object]) -> float:
        """Seconds of copying from the first node's engine, once that has the image."""
        image = bring(self._remote[0], self._built)
        socket = self._nodes[0].root / "run/docker.sock"
        return self._timed([partial(copy, f"unix://{socket}", image.reference)])

    def _timed(self, tasks: Sequence[Callable[[], object]]) -> float:
        """Seconds until all are done; the nodes have nothing afterwards."""
        with ThreadPoolExecutor(len(tasks)) as pool:
            started = time.perf_counter()
            running_tasks = [pool.submit(task) for task in tasks]
            for task in running_tasks:
                task.result()
            elapsed_s = time.perf_counter() - started
        for shell in self._shells:
            shell.run(("docker", "image", "prune", "--all", "--force"), timeout_s=PULL_S)
        return elapsed_s


def _built(place: Workplace, size_mb: int) -> Built:
    cluster = place.cluster("first")
    lab_base = place.root / "examples" / "lab" / "images" / "base"
    digest = write_base(place.folder / "base-layers", lab_base, size_mb=size_mb, layers=LAYERS)
    document: Any = tomlkit.parse(cluster.file.read_text())
    document["image"]["base"] |= {"source": "oci:../base-layers", "digest": digest}
    cluster.file.write_text(tomlkit.dumps(document))
    builder.lock(cluster.file, Silent())
    return builder.build(cluster.file, Silent(), locked=True)


@contextmanager
def _registry_in(node: LabNode, config: Path, port: int) -> Iterator[None]:
    """A docker-registry with a configuration of ours in a node's own network, once it listens."""
    record = running(node.node.folder / RECORD_FILE)
    program = shutil.which(PROGRAM)
    assert record is not None
    assert program is not None
    network = ("nsenter", f"--net=/proc/{record.pid}/ns/net", "--")
    quiet = subprocess.DEVNULL
    argv = [*network, program, "serve", str(config)]
    with subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        try:
            probe = [*network, "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"]
            await_success(process, probe, argv)
            yield
        finally:
            process.kill()
