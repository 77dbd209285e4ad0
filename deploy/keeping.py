"""The verbs of what the nodes keep: the generations there are, and the way back to one of them.

They need the manifest, for the nodes, and no lock: what is on the nodes says all the rest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from builder.edges.files import read_lock, read_manifest
from builder.labels import image_reference
from builder.lock_errors import LockNotFoundError
from builder.read.loaded import lock_beside
from deploy.apply import apply
from deploy.cache_verbs import clear_unused
from deploy.caches import cache_key
from deploy.confirm import limits_of
from deploy.generations import history_of
from deploy.generations_gc import Sweep, sort_out
from deploy.generations_reports import GenerationsReport, RollbackReport
from deploy.interrupts import Interrupts
from deploy.reaching import connected, guarded, require_answer
from deploy.rollback import plan_rollback
from deploy.together import together
from deploy.undo import Means

if TYPE_CHECKING:
    from pathlib import Path

    from builder.progress import Progress
    from deploy.edges.node import RemoteNode
    from deploy.generations import History
    from deploy.generations_gc import Garbage, Kept
    from deploy.reaching import Nodes
    from deploy.state import KeptModel


def generations(file: Path) -> GenerationsReport:
    """Every generation that the nodes have, and which one is to serve; needs every node."""
    loaded = read_manifest(file)
    with connected(loaded) as nodes:
        return GenerationsReport(loaded.manifest.name, history(nodes))


def rollback(
    file: Path, number: int | None, progress: Progress, *, break_guard: bool = False
) -> RollbackReport:
    """Have an older generation serve again, and see it answer; None for the one before.

    Its containers are started as they are: nothing is built and nothing brought. If it does not
    answer, the pair that served before is started again, and DeployFailedError tells. Raises
    NoGenerationError, CannotReturnError and OtherModelError before anything is changed.
    """
    loaded = read_manifest(file)
    serve = loaded.manifest.serve
    with (
        Interrupts() as interrupts,
        connected(loaded) as nodes,
        guarded(nodes, "rollback", by_force=break_guard),
    ):
        progress.stage("look at the nodes")
        found = history(nodes)
        todo = plan_rollback(found, number, kept_models(nodes))
        if todo.up_to_date:
            require_answer(todo, nodes, serve.completion_timeout_s)
        applied = apply(todo, Means(nodes, limits_of(serve), progress, interrupts))
    target = found.find(todo.generation)
    return RollbackReport(
        cluster=loaded.manifest.name,
        plan=todo,
        before=0 if found.current is None else found.current.number,
        lock_digest="" if target is None else target.lock_digest,
        answer=applied.answer,
        returns=found.current is not None and found.current.whole,
    )


def sweep(file: Path, *, keep: int, dry_run: bool = False, break_guard: bool = False) -> Sweep:
    """Remove what the nodes need not keep: all but the current generation and the `keep` newest.

    With them go images and compile caches that nothing uses any more, but for those of the lock
    beside the manifest. Needs every node, since which generation is current is told by all of them
    together.
    """
    loaded = read_manifest(file)
    cluster = loaded.manifest.name
    image, cache = _of_lock(file, cluster)
    with connected(loaded) as nodes:
        if dry_run:
            return Sweep(cluster, _sorted_out(nodes, keep, image), dry_run=True)
        with guarded(nodes, "gc", by_force=break_guard):
            kept = _sorted_out(nodes, keep, image)
            tasks = {
                name: partial(_remove, node, kept.garbage[name]) for name, node in nodes.items()
            }
            stayed = together(tasks)
            caches = clear_unused(cluster, nodes, spared_key=cache)
    if caches.failure is not None:
        raise caches.failure
    return Sweep(
        cluster,
        kept,
        dry_run=False,
        in_use=tuple((name, image) for name, images in stayed.items() for image in images),
        caches=tuple((name, facts.name) for name, facts in caches.removed),
    )


def _of_lock(file: Path, cluster: str) -> tuple[str, str]:
    """The name of the lock's image, and the key of its cache; empty if there is no lock."""
    try:
        lock = read_lock(lock_beside(file))
    except LockNotFoundError:
        return "", ""
    image = lock.outputs.manifest_digest
    return image_reference(cluster, image), cache_key(image, lock.model.files)


def _sorted_out(nodes: Nodes, keep: int, spared: str) -> Kept:
    images = together({name: node.image_names for name, node in nodes.items()})
    return sort_out(history(nodes), images, keep=keep, spared=spared)


def _remove(node: RemoteNode, garbage: Garbage) -> list[str]:
    """The images that could not go, since something else has them."""
    for name in garbage.containers:
        node.remove(name)
    return [name for name in garbage.images if not node.forget_image(name)]


def kept_models(nodes: Nodes) -> dict[str, KeptModel]:
    """Whose replaced model files each node keeps, all asked at once."""
    return together({name: node.kept_model for name, node in nodes.items()})


def history(nodes: Nodes) -> History:
    """The generations that the nodes tell of, all asked at once."""
    return history_of(together({name: node.containers for name, node in nodes.items()}))
