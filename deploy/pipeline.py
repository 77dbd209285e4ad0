"""The verbs of deploy/, one function each: they wire planning and applying to the edges."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from builder.current import check_lock
from builder.edges.files import read_manifest, ssh_config_of
from builder.edges.layout import LayoutSource
from builder.lockfile import lock_digest
from deploy.actions import LoadImage, PullImage
from deploy.apply import apply
from deploy.confirm import Limits
from deploy.edges.blobserver import Offer, Stream
from deploy.edges.delivery import ImageSupply
from deploy.edges.node import RemoteNode, Supplies
from deploy.edges.reach import engine_of_node
from deploy.edges.supply import known_blobs
from deploy.errors import PreflightError, SilentPairError
from deploy.interrupts import Interrupts
from deploy.plan import make_plan
from deploy.preflight import preflight
from deploy.reports import (
    DeployReport,
    LogsReport,
    NodeStatus,
    PlanReport,
    RankLog,
    StatusReport,
    StopReport,
)
from deploy.state import Outcome
from deploy.together import each, failure_of, together
from deploy.wanted import wanted as wanted_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from builder.digest import Digest
    from builder.errors import SparklockError
    from builder.manifest import Node
    from builder.progress import Progress
    from builder.read.loaded import LoadedManifest
    from builder.reports import Built
    from deploy.actions import Plan
    from deploy.state import NodeState
    from deploy.wanted import Wanted

    Nodes = Mapping[str, RemoteNode]


def plan(file: Path) -> PlanReport:
    """What deploy would do on each node, changing nothing; PreflightError if a node is unfit."""
    loaded, wanted = _wanted(file)
    with _connected(loaded) as nodes:
        return PlanReport(wanted.manifest.name, _planned(wanted, _observed(wanted, nodes)))


def deploy(file: Path, progress: Progress) -> DeployReport:
    """Bring the locked image and model to every node, switch to it, and see it answer.

    `file` is the manifest; lockfile.json and .sparklock/ lie beside it. On any failure, and when
    interrupted, everything this call made is removed and the old pair runs; DeployFailedError says
    what was restored. A second deploy of the same lock changes nothing; SilentPairError if the
    pair runs as locked and does not answer.
    """
    loaded, wanted = _wanted(file)
    with Interrupts() as interrupts, _connected(loaded) as nodes, _guarded(nodes):
        progress.stage("look at the nodes")
        todo = _planned(wanted, _observed(wanted, nodes))
        together({name: partial(node.remember_model, progress) for name, node in nodes.items()})
        serve = wanted.manifest.serve
        if todo.up_to_date:
            _require_answer(todo, nodes, serve.completion_timeout_s)
        _supply(file, loaded, todo, nodes, progress)
        limits = Limits(serve.start_timeout_s, serve.completion_timeout_s)
        applied = apply(todo, nodes, limits, progress, interrupts)
    return DeployReport(
        cluster=wanted.manifest.name,
        generation=todo.generation,
        plan=todo,
        sent_bytes=tuple(applied.sent_bytes.items()),
        answer=applied.answer,
        deliveries=tuple(
            (name, node.delivered) for name, node in nodes.items() if node.delivered is not None
        ),
        detours=tuple((name, told) for name, node in nodes.items() for told in node.detours),
    )


def status(file: Path) -> StatusReport:
    """What runs on each node now, compared with the lock.

    A node that cannot be asked is told in the report, unless no node can be.
    """
    loaded, wanted = _wanted(file)
    with _reached(loaded) as (nodes, unreached):
        tasks = {name: partial(node.observe, wanted) for name, node in nodes.items()}
        states, unobserved = each(tasks)
    failure = failure_of((*unreached, *unobserved))
    return StatusReport(
        cluster=wanted.manifest.name,
        nodes=tuple(NodeStatus(s.node, s.engine, s.containers) for s in states.values()),
        plan=make_plan(wanted, states) if failure is None else None,
        failure=failure,
    )


def stop(file: Path) -> StopReport:
    """Stop and remove every container of this cluster; images and model stay.

    A node that cannot be reached keeps its own, and is told in the report.
    """
    loaded = read_manifest(file)
    with _reached(loaded) as (nodes, unreached), _guarded(nodes):
        tasks = {name: partial(_remove_all, node) for name, node in nodes.items()}
        removed, unstopped = each(tasks)
    pairs = ((node, container) for node, names in removed.items() for container in names)
    failure = failure_of((*unreached, *unstopped))
    return StopReport(loaded.manifest.name, tuple(pairs), failure)


def logs(file: Path, *, tail: int) -> LogsReport:
    """The last `tail` lines of every rank's log."""
    loaded = read_manifest(file)
    with _connected(loaded) as nodes:
        found = together({name: partial(_logs, node, name, tail) for name, node in nodes.items()})
    every = [log for of_node in found.values() for log in of_node]
    every.sort(key=lambda log: log[0])
    return LogsReport(loaded.manifest.name, tuple(log for _, log in every))


def supply_of(built: Built) -> ImageSupply:
    """A built image as nodes are given it: pulled blob by blob, or loaded as an archive."""
    return ImageSupply(offer_of(built), built.image, built.open_blob)


def offer_of(built: Built) -> Offer:
    """A built image as the blob server offers it: our blobs from the store, else the base's."""
    image = built.image
    places, streams = [built.store.path], {}
    layers = {layer.descriptor.digest: layer.descriptor for layer in image.layers}
    if isinstance(built.base, LayoutSource):
        places.append(built.base.path)
    else:
        streams = {
            digest: Stream(descriptor.size_bytes, partial(built.base.open_blob, descriptor))
            for digest, descriptor in layers.items()
        }
    return Offer(
        manifest=image.manifest.raw,
        manifest_digest=image.manifest.descriptor.digest,
        media_type=image.manifest.descriptor.media_type,
        blobs=frozenset((image.config.digest, *layers)),
        places=places,
        streams=streams,
    )


def _wanted(file: Path) -> tuple[LoadedManifest, Wanted]:
    """The manifest and what its lock, which has to be current, wants of the nodes."""
    loaded = read_manifest(file)
    lock = check_lock(file).lock
    return loaded, wanted_of(loaded.manifest, lock, lock_digest(lock))


@contextmanager
def _connected(loaded: LoadedManifest) -> Iterator[Nodes]:
    """Every node in reach, in the manifest's order; or none, when one cannot be reached."""
    with _reached(loaded) as (nodes, unreached):
        failure = failure_of(unreached)
        if failure is not None:
            raise failure
        yield nodes


@contextmanager
def _reached(loaded: LoadedManifest) -> Iterator[tuple[Nodes, Sequence[SparklockError]]]:
    """The nodes in reach, in the manifest's order, and why others are not; raises if none is."""
    manifest = loaded.manifest
    config = ssh_config_of(loaded)
    known = partial(_blobs_built, loaded)
    opened: dict[str, RemoteNode] = {}

    def reach(node: Node) -> None:
        opened[node.name] = RemoteNode(manifest, node, config, known)

    try:
        _, unreached = each({node.name: partial(reach, node) for node in manifest.nodes})
        names = (node.name for node in manifest.nodes)
        yield {name: opened[name] for name in names if name in opened}, unreached
    finally:
        together({name: node.close for name, node in opened.items()})


def _blobs_built(loaded: LoadedManifest, engine_id: str) -> frozenset[Digest]:
    """The layers' blobs of a manifest that was built beside this one, now or earlier."""
    from builder.pipeline import store_of  # noqa: PLC0415 - only to a node that lacks the image

    return known_blobs(store_of(loaded), engine_id)


@contextmanager
def _guarded(nodes: Nodes) -> Iterator[None]:
    """No other deploy on any node, as long as this one lasts or lives."""
    with ExitStack() as stack:
        for node in nodes.values():
            stack.enter_context(node.guard())
        yield


def _observed(wanted: Wanted, nodes: Nodes) -> dict[str, NodeState]:
    return together({name: partial(node.observe, wanted) for name, node in nodes.items()})


def _planned(wanted: Wanted, states: Mapping[str, NodeState]) -> Plan:
    findings = preflight(wanted, states)
    if findings:
        raise PreflightError(findings)
    return make_plan(wanted, states)


def _require_answer(todo: Plan, nodes: Nodes, timeout_s: float) -> None:
    """Nothing if the pair that runs as locked also answers; SilentPairError if it does not.

    A rank that hangs looks like one that works to everything but a request.
    """
    head, _ = todo.restore[0]
    answer = nodes[head].complete(timeout_s)
    if answer.outcome is not Outcome.ANSWERED:
        raise SilentPairError(head, timeout_s, answer.outcome, answer.text)


def _supply(
    file: Path, loaded: LoadedManifest, todo: Plan, nodes: Nodes, progress: Progress
) -> None:
    """Let the nodes fetch what the plan brings them; the image is built if the store lacks it."""
    from builder.pipeline import build  # noqa: PLC0415 - a plan, a second deploy build nothing

    brings_image = any(isinstance(action, PullImage | LoadImage) for action in todo.actions)
    image = None
    if brings_image:
        image = supply_of(build(file, progress, locked=True, reach=engine_of_node))
    model = loaded.manifest.model.files
    folder = None if model is None else loaded.folder / model
    for node in nodes.values():
        node.supplies = Supplies(image, folder)


def _remove_all(node: RemoteNode) -> list[str]:
    names = [container.name for container in node.containers()]
    for name in names:
        node.stop(name)
        node.remove(name)
    return names


def _logs(node: RemoteNode, name: str, tail: int) -> list[tuple[tuple[int, int], RankLog]]:
    """The logs of one node, each with what it is sorted by: generation and rank."""
    return [
        (
            (item.generation, item.rank),
            RankLog(name, item.name, item.rank, node.log(item.name, tail)),
        )
        for item in node.containers()
    ]
