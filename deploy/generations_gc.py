"""What the nodes need not keep: generations beyond a number, and images that no kept one has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from builder.digest import JsonValue
    from deploy.generations import Generation, History
    from deploy.state import ImageName


@dataclass(frozen=True, slots=True)
class Garbage:
    """What goes from one node: containers by name, then images by name."""

    containers: tuple[str, ...] = ()
    images: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything goes."""
        return bool(self.containers or self.images)


@dataclass(frozen=True, slots=True)
class Kept:
    """The generations that stay, newest first, and what goes, by node."""

    generations: tuple[int, ...]
    garbage: Mapping[str, Garbage]


def sort_out(
    history: History, images: Mapping[str, Sequence[ImageName]], *, keep: int, spared: str = ""
) -> Kept:
    """What stays and what goes: the current generation and the `keep` newest others stay.

    Those count that can serve again. What runs stays anyway, and so does the image named `spared`,
    which is the lock's and may be deployed next. `images` are the cluster's own, by node.
    """
    kept = list(_kept(history, keep))
    numbers = {item.number for item in kept}
    gone = [
        item
        for item in history.containers
        if item.facts.generation not in numbers and not item.facts.running
    ]
    stay = [item for item in history.containers if item not in gone]
    garbage = {}
    for node, named in images.items():
        here = [item.facts for item in stay if item.node == node]
        used = {item.image_id for item in here} | {item.image for item in here} | {spared}
        garbage[node] = Garbage(
            containers=tuple(item.facts.name for item in gone if item.node == node),
            images=tuple(
                i.name for i in named if i.is_tunnel or used.isdisjoint({i.name, i.engine_id})
            ),
        )
    return Kept(tuple(sorted(numbers, reverse=True)), garbage)


def _kept(history: History, keep: int) -> Iterator[Generation]:
    if history.current is not None:
        yield history.current
    yield from [item for item in history.superseded if item.whole][:keep]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What `inv gc --keep` did on the nodes, or would do (`dry_run`).

    `in_use` are images that something else on their node has, as (node, name): they stay. `caches`
    are those that went with their last container.
    """

    cluster: str
    kept: Kept
    dry_run: bool
    in_use: tuple[tuple[str, str], ...] = ()
    caches: tuple[tuple[str, str], ...] = ()

    def text(self) -> str:
        """The outcome as lines of plain text, node by node."""
        numbers = ", ".join(map(str, self.kept.generations)) or "none"
        done = "would go" if self.dry_run else "removed"
        lines = [f"{self.cluster}: kept generations {numbers}"]
        for node, garbage in self.kept.garbage.items():
            stay = {name for where, name in self.in_use if where == node}
            gone = [*garbage.containers, *(f"image {n}" for n in garbage.images if n not in stay)]
            gone += [f"cache {name}" for where, name in self.caches if where == node]
            lines += [f"  {node}  {done:<8}  {what}" for what in gone or ["nothing"]]
            lines += [f"  {node}  kept      image {name}, which is in use" for name in sorted(stay)]
        return "\n".join(lines)

    def as_json(self) -> JsonValue:
        """The outcome as a JSON object."""
        return {
            "kept": list(self.kept.generations),
            "nodes": {
                node: {
                    "containers": list(garbage.containers),
                    "images": [n for n in garbage.images if (node, n) not in self.in_use],
                    "in_use": [name for where, name in self.in_use if where == node],
                    "caches": [name for where, name in self.caches if where == node],
                }
                for node, garbage in self.kept.garbage.items()
            },
        }
