"""Which cache a generation's ranks compile into: named volumes of the nodes' engines, by content.

vLLM, Triton, FlashInfer and CUDA compile for minutes at a first start. What they made is kept in a
volume whose name says the image and the model that it was made with, so that neither ever meets
another's; and a cache is taken again only when every node has it, since ranks of which one has
compiled and the other has not wait for each other in vain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.digest import canonical_json, digest_bytes, hex_of
from deploy.actions import size_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from builder.digest import Digest, JsonValue
    from builder.errors import SparklockError
    from builder.lock import ModelFile


def cache_key(image: Digest, files: Iterable[ModelFile]) -> str:
    """12 hex digits of an image, by its manifest's digest, and the model's files."""
    model: list[JsonValue] = [[file.path, file.digest] for file in files]
    return hex_of(digest_bytes(canonical_json({"image": image, "model": model})))[:12]


def chosen_cache(cluster: str, key: str, caches: Iterable[Collection[str]], generation: int) -> str:
    """The newest cache of a key that all nodes have, else a new one that no node has.

    `caches` are the names of the caches that each node has. A new one is named after its
    generation, or a later number: generations may begin anew where caches are left.
    """
    prefix = _prefix(cluster, key)
    own = re.compile(rf"{re.escape(prefix)}(\d+)\Z")
    numbers = [{int(m[1]) for m in map(own.match, names) if m} for names in caches]
    everywhere = set[int].intersection(*numbers)
    if everywhere:
        return f"{prefix}{max(everywhere)}"
    return f"{prefix}{max(generation, *(number + 1 for here in numbers for number in here), 0)}"


def is_cache(cluster: str, key: str, name: str) -> bool:
    """Whether a volume's name is that of a cache of a key."""
    return bool(key) and name.startswith(_prefix(cluster, key))


def _prefix(cluster: str, key: str) -> str:
    return f"sparklock-{cluster}-cache-{key}-g"


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """A cache on a node; `size_bytes` is None if the engine does not tell.

    `in_use` says that a container has it, running or not.
    """

    name: str
    size_bytes: int | None
    in_use: bool

    @property
    def text(self) -> str:
        """Name, size and use in a line."""
        size = "size unknown" if self.size_bytes is None else size_text(self.size_bytes)
        return f"{self.name}  {size}{', in use' if self.in_use else ''}"

    def as_json(self) -> dict[str, JsonValue]:
        """The cache as a JSON object."""
        return {"name": self.name, "size_bytes": self.size_bytes, "in_use": self.in_use}


@dataclass(frozen=True, slots=True)
class CachesReport:
    """The caches of a cluster by node, and those that were removed; `failure` is of some nodes."""

    cluster: str
    kept: Sequence[tuple[str, CacheFacts]]
    removed: Sequence[tuple[str, CacheFacts]] = ()
    failure: SparklockError | None = None

    def text(self) -> str:
        """A line for each cache."""
        if not self.kept and not self.removed:
            return f"{self.cluster}: no caches"
        gone = [f"  {node}  removed {cache.text}" for node, cache in self.removed]
        there = [f"  {node}  {cache.text}" for node, cache in self.kept]
        return "\n".join([f"{self.cluster}: compile caches", *gone, *there])

    def as_json(self) -> dict[str, JsonValue]:
        """The caches as a JSON object."""
        messages = () if self.failure is None else self.failure.messages
        return {
            "cluster": self.cluster,
            "kept": [{"node": node, **cache.as_json()} for node, cache in self.kept],
            "removed": [{"node": node, **cache.as_json()} for node, cache in self.removed],
            "failures": [message.as_json() for message in messages],
        }
