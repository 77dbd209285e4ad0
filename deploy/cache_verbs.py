"""Listing the compile caches of a cluster's nodes, and clearing those that no container has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from builder.edges.files import read_manifest
from deploy.caches import CachesReport, is_cache
from deploy.reaching import guarded, reached
from deploy.together import each, failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from builder.errors import SparklockError
    from deploy.caches import CacheFacts
    from deploy.edges.node import RemoteNode
    from deploy.reaching import Nodes


def caches(file: Path, *, clear: bool = False, break_guard: bool = False) -> CachesReport:
    """The caches of every node and, to `clear`, those removed that no container has any more.

    A cache that a container has, running or not, stays: after `inv stop --remove` none has one. A
    node that cannot be reached is told in the report.
    """
    loaded = read_manifest(file)
    with reached(loaded) as (nodes, unreached):
        if not clear:
            found, failed = each({name: node.caches for name, node in nodes.items()})
            kept = [(node, cache) for node, here in found.items() for cache in here]
            failure = failure_of((*unreached, *failed))
            return CachesReport(loaded.manifest.name, kept, failure=failure)
        with guarded(nodes, "gc", by_force=break_guard):
            return clear_unused(loaded.manifest.name, nodes, unreached)


def clear_unused(
    cluster: str, nodes: Nodes, failures: Sequence[SparklockError] = (), *, spared_key: str = ""
) -> CachesReport:
    """What is left after the caches were removed that no container of these nodes has.

    Those of `spared_key` stay anyway, for the next deploy of the same image and model. `failures`
    are reported with those that come up.
    """
    tasks = {
        name: partial(_clear, node, partial(is_cache, cluster, spared_key))
        for name, node in nodes.items()
    }
    done, failed = each(tasks)
    return CachesReport(
        cluster,
        kept=[(node, cache) for node, (kept, _) in done.items() for cache in kept],
        removed=[(node, cache) for node, (_, removed) in done.items() for cache in removed],
        failure=failure_of((*failures, *failed)),
    )


def _clear(
    node: RemoteNode, spared: Callable[[str], bool]
) -> tuple[list[CacheFacts], list[CacheFacts]]:
    kept: list[CacheFacts] = []
    removed: list[CacheFacts] = []
    for cache in node.caches():
        gone = not cache.in_use and not spared(cache.name) and node.remove_cache(cache.name)
        (removed if gone else kept).append(cache)
    return kept, removed
