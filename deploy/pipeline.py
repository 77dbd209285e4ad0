"""plan and deploy: they wire planning and applying to the edges."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from builder.edges.layout import LayoutSource
from builder.privileges import weakenings
from deploy.actions import LoadImage, PullImage
from deploy.apply import apply
from deploy.confirm import limits_of
from deploy.doctor import checked_links
from deploy.edges.api_key import require_api_key
from deploy.edges.blobserver import Offer, Stream
from deploy.edges.delivery import ImageSupply
from deploy.edges.node import Supplies
from deploy.edges.reach import engine_of_node
from deploy.errors import PreflightError, SilentPairError
from deploy.interrupts import Interrupts
from deploy.plan import make_plan
from deploy.preflight import errors_of, preflight, warnings_of
from deploy.reaching import connected, guarded, observed, wanted_by
from deploy.reports import DeployReport, PlanReport, warned
from deploy.state import Outcome
from deploy.together import together

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from builder.progress import Progress
    from builder.read.loaded import LoadedManifest
    from builder.reports import Built
    from deploy.actions import AnyAction, Plan
    from deploy.preflight import Finding
    from deploy.reaching import Nodes


def plan(file: Path) -> PlanReport:
    """What deploy would do on each node, changing nothing; PreflightError if a node is unfit."""
    loaded, wanted = wanted_by(file)
    with connected(loaded) as nodes:
        states = observed(wanted, nodes)
        warnings = _fit(preflight(wanted, states))
    todo = make_plan(wanted, states)
    return PlanReport(wanted.manifest.name, todo, weakenings(wanted.manifest), warnings)


def deploy(file: Path, progress: Progress, *, break_guard: bool = False) -> DeployReport:
    """Bring the locked image and model to every node, switch to it, and see it answer.

    `file` is the manifest; lockfile.json and .sparklock/ lie beside it. On any failure, and when
    interrupted, everything this call made is removed and the old pair runs; DeployFailedError says
    what was restored. A second deploy of the same lock changes nothing; SilentPairError if the
    pair runs as locked and does not answer.
    """
    loaded, wanted = wanted_by(file)
    require_api_key(loaded.manifest)
    with (
        Interrupts() as interrupts,
        connected(loaded) as nodes,
        guarded(nodes, "deploy", by_force=break_guard),
    ):
        progress.stage("look at the nodes")
        states = observed(wanted, nodes)
        warnings = _fit(preflight(wanted, states))
        todo = make_plan(wanted, states)
        if not todo.up_to_date:
            warnings += _fit(checked_links(wanted.manifest, nodes))
        if warnings:
            progress.note(warned(warnings))
        together({name: partial(node.remember_model, progress) for name, node in nodes.items()})
        serve = wanted.manifest.serve
        if todo.up_to_date:
            _require_answer(todo, nodes, serve.completion_timeout_s)
        supply_nodes(file, loaded, todo.actions, nodes, progress)
        applied = apply(todo, nodes, limits_of(serve), progress, interrupts)
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
        weakenings=weakenings(wanted.manifest),
    )


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


def _fit(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The warnings among findings; PreflightError when one of them is an error."""
    errors = errors_of(findings)
    if errors:
        raise PreflightError(errors)
    return warnings_of(findings)


def _require_answer(todo: Plan, nodes: Nodes, timeout_s: float) -> None:
    """Nothing if the pair that runs as locked also answers; SilentPairError if it does not.

    A rank that hangs looks like one that works to everything but a request.
    """
    head, _ = todo.restore[0]
    answer = nodes[head].complete(timeout_s)
    if answer.outcome is not Outcome.ANSWERED:
        raise SilentPairError(head, timeout_s, answer.outcome, answer.text)


def supply_nodes(
    file: Path,
    loaded: LoadedManifest,
    actions: Sequence[AnyAction],
    nodes: Nodes,
    progress: Progress,
) -> None:
    """Let the nodes fetch what actions bring them; the image is built if the store lacks it."""
    from builder.pipeline import build  # noqa: PLC0415 - a plan, a second deploy build nothing

    brings_image = any(isinstance(action, PullImage | LoadImage) for action in actions)
    image = None
    if brings_image:
        image = supply_of(build(file, progress, locked=True, reach=engine_of_node))
    model = loaded.manifest.model.files
    folder = None if model is None else loaded.folder / model
    for node in nodes.values():
        node.supplies = Supplies(image, folder, nodes)
