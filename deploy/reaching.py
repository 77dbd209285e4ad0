"""The nodes in reach, guarded and observed: what every verb that needs them begins with."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from builder.current import current
from builder.edges.files import read_manifest, ssh_config_of
from builder.lockfile import lock_digest
from deploy.edges.api_key import api_key_of
from deploy.edges.node import RemoteNode
from deploy.edges.places import sweep
from deploy.edges.ssh import Opening
from deploy.edges.supply import known_blobs
from deploy.errors import SilentPairError
from deploy.state import Outcome
from deploy.together import each, failure_of, together
from deploy.wanted import wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from builder.digest import Digest
    from builder.errors import SparklockError
    from builder.manifest import Node
    from builder.read.loaded import LoadedManifest
    from deploy.actions import Plan
    from deploy.edges.logins import Logins
    from deploy.guard import Verb
    from deploy.state import NodeState
    from deploy.wanted import Wanted

    Nodes: TypeAlias = Mapping[str, RemoteNode]


def wanted_by(file: Path) -> tuple[LoadedManifest, Wanted]:
    """The manifest and what its lock, which has to be current, wants of the nodes."""
    loaded = read_manifest(file)
    lock = current(loaded).lock
    plain = wanted(loaded.manifest, lock, lock_digest(lock))
    return loaded, replace(plain, api_key=api_key_of(loaded.manifest))


@contextmanager
def connected(loaded: LoadedManifest, logins: Logins | None = None) -> Iterator[Nodes]:
    """Every node in reach, in the manifest's order; or none, when one cannot be reached."""
    with reached(loaded, logins) as (nodes, unreached):
        failure = failure_of(unreached)
        if failure is not None:
            raise failure
        yield nodes


@contextmanager
def reached(
    loaded: LoadedManifest, logins: Logins | None = None
) -> Iterator[tuple[Nodes, Sequence[SparklockError]]]:
    """The nodes in reach, in the manifest's order, and why others are not; raises if none is.

    `logins` are those that are on their way.
    """
    manifest = loaded.manifest
    config = ssh_config_of(loaded)
    known = partial(_blobs_built, loaded)
    opened: dict[str, RemoteNode] = {}
    opening = Opening(logins)
    sweep()

    def reach(node: Node) -> None:
        opened[node.name] = RemoteNode(manifest, node, config, known, opening)

    try:
        _, unreached = each({node.name: partial(reach, node) for node in manifest.nodes})
        names = (node.name for node in manifest.nodes)
        yield {name: opened[name] for name in names if name in opened}, unreached
    finally:
        together({name: node.close for name, node in tuple(opened.items())})
        opening.end()


@contextmanager
def guarded(nodes: Nodes, verb: Verb, *, by_force: bool = False) -> Iterator[None]:
    """Nobody else changes any of the nodes, as long as this lasts and its process lives.

    DeployBusyError tells who is at work; `by_force` ends their hold. The first node's guard comes
    before the others', so that of two who begin at once one gets them all.
    """
    from deploy.edges.guard import Guards  # noqa: PLC0415 - a look needs none

    guards = Guards()
    try:
        tasks = {
            name: partial(node.take_guard, guards, verb, by_force=by_force)
            for name, node in nodes.items()
        }
        first = next(iter(tasks))
        tasks.pop(first)()
        together(tasks)
        yield
    finally:
        guards.close()


def observed(wanted: Wanted, nodes: Nodes) -> dict[str, NodeState]:
    """Every node as it is now, all asked at once."""
    return together({name: partial(node.observe, wanted) for name, node in nodes.items()})


def require_answer(todo: Plan, nodes: Nodes, timeout_s: float) -> None:
    """Nothing if the pair that runs as planned also answers; SilentPairError if it does not.

    A rank that hangs looks like one that works to everything but a request.
    """
    head, _ = todo.restore.ranks[0]
    answer = nodes[head].complete(timeout_s, todo.at)
    if answer.outcome is not Outcome.ANSWERED:
        from deploy.confirm import why_silent  # noqa: PLC0415 - for a failure alone

        verdict = why_silent(todo.restore.ranks, nodes, answer)
        raise SilentPairError(head, timeout_s, answer, verdict, todo.again)


def _blobs_built(loaded: LoadedManifest, engine_id: str) -> frozenset[Digest]:
    """The layers' blobs of a manifest that was built beside this one, now or earlier."""
    from builder.pipeline import store_of  # noqa: PLC0415 - only to a node that lacks the image

    return known_blobs(store_of(loaded), engine_id)
