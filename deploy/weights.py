"""Which node gets which model files from where: from the Hub once, then over the fabric."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deploy.actions import (
    CopyModel,
    FetchModel,
    Phase,
    PlaceModel,
    SendModel,
    SettleModel,
    Step,
)
from deploy.images import images_of
from deploy.state import lacking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.lock import ModelFile
    from deploy.actions import AnyAction
    from deploy.state import NodeState
    from deploy.wanted import Wanted

HELPER: Final = "io.sparklock.helper"
"""Label of a container that helps for a while and is no rank: the cluster's name."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """What has to travel for a model of the Hub; empty for one of our own, which is sent."""

    fetch: tuple[FetchModel, ...] = ()
    copy: tuple[CopyModel, ...] = ()

    @property
    def phases(self) -> tuple[tuple[Phase, tuple[AnyAction, ...]], ...]:
        """The two steps, in order: a copy may be of what was fetched."""
        return ((Phase.FETCH, self.fetch), (Phase.COPY, self.copy))


def sharing(wanted: Wanted, states: Mapping[str, NodeState]) -> Sharing:
    """How every node gets the files it lacks.

    What one node has, in its place or from an interrupted run, the others get from it. What none
    has comes from the Hub to the node that lacks least, and to the others from there.
    """
    model = wanted.manifest.model
    if model.repo is None or model.revision is None:
        return Sharing()
    lacks = {
        node.name: lacking(wanted.model_files, states[node.name]) for node in wanted.manifest.nodes
    }
    nowhere = {file.path for file in wanted.model_files}.intersection(
        *({file.path for file in files} for files in lacks.values())
    )
    first = min(lacks, key=lambda name: sum(file.size_bytes for file in lacks[name]))
    fetched = tuple(file for file in wanted.model_files if file.path in nowhere)
    fetch = FetchModel(
        first,
        "no node has them" if len(lacks) > 1 else "missing or different",
        wanted.image.reference,
        model.repo,
        model.revision,
        fetched,
    )
    holders = dict.fromkeys(nowhere, first)
    for name, files in lacks.items():
        there = {file.path for file in wanted.model_files} - {file.path for file in files}
        holders |= {path: name for path in there if path not in holders}
    copies = tuple(
        copy
        for node in wanted.manifest.nodes
        for copy in _copies(wanted, node.name, lacks[node.name], holders)
    )
    return Sharing((fetch,) if fetched else (), copies)


def _copies(
    wanted: Wanted, node: str, lacks: tuple[ModelFile, ...], holders: Mapping[str, str]
) -> Iterator[CopyModel]:
    """One copy from every node that holds something that this one lacks."""
    by_source: dict[str, list[ModelFile]] = defaultdict(list)
    for file in lacks:
        if holders[file.path] != node:
            by_source[holders[file.path]].append(file)
    for source, files in sorted(by_source.items()):
        yield CopyModel(node, "over the fabric", source, wanted.image.reference, tuple(files))


def weights_steps(
    wanted: Wanted, states: Mapping[str, NodeState], *, place: bool
) -> tuple[Step, ...]:
    """What brings the model to every node, and with `place` into its place; no container changes.

    The image goes to the node that fetches, since the fetching is done by it.
    """
    shared = sharing(wanted, states)
    fetchers = [action.node for action in shared.fetch]
    images = [action for action in images_of(wanted, states) if action.node in fetchers]
    steps: list[tuple[Phase, tuple[AnyAction, ...]]] = [
        (Phase.PREPARE, (*sends(wanted, states), *images)),
        *shared.phases,
    ]
    if place:
        steps += [
            (Phase.PLACE, tuple(places(wanted, states))),
            (Phase.REMOVE, tuple(settles(wanted, states))),
        ]
    return tuple(Step(phase, actions) for phase, actions in steps if actions)


def missing_model(wanted: Wanted, state: NodeState) -> tuple[ModelFile, ...]:
    """The model files that a node has not in their places, or has there with other bytes."""
    there = {file.path: file.digest for file in state.model_files}
    return tuple(file for file in wanted.model_files if there.get(file.path) != file.digest)


def sends(wanted: Wanted, states: Mapping[str, NodeState]) -> Iterator[SendModel]:
    """What brings a model of our own to every node that lacks files of it."""
    if wanted.manifest.model.files is None:
        return
    for node in wanted.manifest.nodes:
        files = lacking(wanted.model_files, states[node.name])
        if files:
            folder = wanted.manifest.model_path(node)
            yield SendModel(node.name, f"missing or different in {folder}", folder, files)


def places(wanted: Wanted, states: Mapping[str, NodeState]) -> Iterator[PlaceModel]:
    """What puts files into their places that were brought beside them."""
    for node in wanted.manifest.nodes:
        files = missing_model(wanted, states[node.name])
        if files:
            there = {file.path for file in states[node.name].model_files}
            replaced = tuple(file.path for file in files if file.path in there)
            folder = wanted.manifest.model_path(node)
            yield PlaceModel(node.name, "it was brought", folder, files, replaced)


def settles(wanted: Wanted, states: Mapping[str, NodeState]) -> Iterator[SettleModel]:
    """What drops files that were replaced, and whatever else a transfer left."""
    for node in wanted.manifest.nodes:
        state = states[node.name]
        if state.model_transfer or missing_model(wanted, state):
            folder = wanted.manifest.model_path(node)
            yield SettleModel(node.name, "the model is in place", folder)
