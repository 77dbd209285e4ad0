"""Which node gets which model files from where: to one node once, then over the fabric."""

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
from deploy.generations import history_of
from deploy.images import images_of
from deploy.replaced import NOBODY, owner_beside
from deploy.state import lacking

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from builder.lock import ModelFile
    from deploy.actions import AnyAction
    from deploy.state import NodeState
    from deploy.wanted import Wanted

HELPER: Final = "io.sparklock.helper"
"""Label of a container that helps for a while and is no rank: the cluster's name."""


LARGE_BYTES: Final = 64 * 2**20
"""What has to be lacking before files of our own are sent to one node alone, and copied there."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """What has to travel so that every node has the model; a copy may be of what came before."""

    send: tuple[SendModel, ...] = ()
    fetch: tuple[FetchModel, ...] = ()
    copy: tuple[CopyModel, ...] = ()

    @property
    def phases(self) -> tuple[tuple[Phase, tuple[AnyAction, ...]], ...]:
        """What needs the image on the nodes, in order; sending does not."""
        return ((Phase.FETCH, self.fetch), (Phase.COPY, self.copy))


def sharing(wanted: Wanted, states: Mapping[str, NodeState]) -> Sharing:
    """How every node gets the files it lacks.

    What one node has, in its place or from an interrupted run, the others get from it. What none
    has comes from the Hub, or from us, to the node that lacks least, and to the others from there.
    Small files of our own are sent to each node.
    """
    names = [node.name for node in wanted.manifest.nodes]
    lacks = {name: lacking(wanted.model_files, states[name]) for name in names}
    model = wanted.manifest.model
    first = min(names, key=lambda name: _size_bytes(lacks[name]))
    others = sum(_size_bytes(lacks[name]) for name in names if name != first)
    if model.files is not None and others < LARGE_BYTES:
        return Sharing(
            send=tuple(_send(wanted, name, lacks[name]) for name in names if lacks[name])
        )
    paths = {file.path for file in wanted.model_files}
    absent = {name: {file.path for file in files} for name, files in lacks.items()}
    nowhere = paths.intersection(*absent.values())
    brought = tuple(file for file in wanted.model_files if file.path in nowhere)
    holders = dict.fromkeys(nowhere, first)
    for name in names:
        holders |= {path: name for path in paths - absent[name] if path not in holders}
    copy = tuple(item for name in names for item in _copies(wanted, name, lacks[name], holders))
    if not brought:
        return Sharing(copy=copy)
    if model.repo is None or model.revision is None:
        return Sharing(send=(_send(wanted, first, brought),), copy=copy)
    image, reason = wanted.image.reference, "no node has them"
    fetch = FetchModel(first, reason, image, model.repo, model.revision, brought)
    return Sharing(fetch=(fetch,), copy=copy)


def _send(wanted: Wanted, name: str, files: tuple[ModelFile, ...]) -> SendModel:
    folders = {node.name: wanted.manifest.model_path(node) for node in wanted.manifest.nodes}
    return SendModel(name, f"missing or different in {folders[name]}", folders[name], files)


def _size_bytes(files: Iterable[ModelFile]) -> int:
    return sum(file.size_bytes for file in files)


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
        (Phase.PREPARE, (*shared.send, *images)),
        *shared.phases,
    ]
    if place:
        current = history_of({name: state.containers for name, state in states.items()}).current
        pair = owner_beside(current, wanted)
        keep = "" if pair == NOBODY else pair
        steps += [
            (Phase.PLACE, tuple(places(wanted, states, pair))),
            (Phase.REMOVE, tuple(settles(wanted, states, keep))),
        ]
    return tuple(Step(phase, actions) for phase, actions in steps if actions)


def missing_model(wanted: Wanted, state: NodeState) -> tuple[ModelFile, ...]:
    """The model files that a node has not in their places, or has there with other bytes."""
    there = {file.path: file.digest for file in state.model_files}
    return tuple(file for file in wanted.model_files if there.get(file.path) != file.digest)


def places(wanted: Wanted, states: Mapping[str, NodeState], pair: str) -> Iterator[PlaceModel]:
    """What puts files into their places that were brought beside them.

    The files they replace are kept as those of `pair`, the owner that would be restored.
    """
    for node in wanted.manifest.nodes:
        files = missing_model(wanted, states[node.name])
        if files:
            there = {file.path for file in states[node.name].model_files}
            replaced = tuple(file.path for file in files if file.path in there)
            folder = wanted.manifest.model_path(node)
            yield PlaceModel(node.name, "it was brought", folder, files, replaced, pair)


def settles(
    wanted: Wanted, states: Mapping[str, NodeState], keep: str = ""
) -> Iterator[SettleModel]:
    """What drops files that were replaced, those of `keep` excepted, and what a transfer left."""
    for node in wanted.manifest.nodes:
        state = states[node.name]
        if state.model_transfer or missing_model(wanted, state):
            folder = wanted.manifest.model_path(node)
            yield SettleModel(node.name, "the model is in place", folder, keep)
