"""What `inv weights` did or found: values that a person and a script can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deploy.actions import size_text
from deploy.weights_errors import WeightsDifferError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import JsonValue

SHOWN: Final = 5
"""File names that a line of text has room for."""


@dataclass(frozen=True, slots=True)
class NodeWeightsReport:
    """One node's model: what of it was missing or different, and what came of that.

    `travelled_bytes` came to the node; `staged` says that files wait beside their place.
    """

    node: str
    folder: str
    size_bytes: int
    missing: tuple[str, ...]
    different: tuple[str, ...]
    travelled_bytes: int = 0
    staged: bool = False

    @property
    def complete(self) -> bool:
        """Whether every file was there as locked."""
        return not self.missing and not self.different

    def lines(self, *, checked: bool) -> Iterator[str]:
        """The node as lines of plain text."""
        head = f"{self.node}  {self.folder}: {size_text(self.size_bytes)}"
        if self.complete:
            yield f"{head}, all there"
            return
        if checked:
            yield head
            for what, names in (("missing", self.missing), ("different", self.different)):
                if names:
                    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                    yield f"  {what}: {', '.join(names[:SHOWN])}{more}"
            return
        where = "beside its place until inv deploy" if self.staged else "in place"
        yield f"{head}, {size_text(self.travelled_bytes)} came, {where}"

    def as_json(self) -> dict[str, JsonValue]:
        """The node as a JSON object."""
        return {
            "node": self.node,
            "folder": self.folder,
            "size_bytes": self.size_bytes,
            "missing": list(self.missing),
            "different": list(self.different),
            "travelled_bytes": self.travelled_bytes,
            "staged": self.staged,
        }


@dataclass(frozen=True, slots=True)
class WeightsReport:
    """Every node's model; `checked` says that nothing was brought."""

    cluster: str
    nodes: tuple[NodeWeightsReport, ...]
    checked: bool

    @property
    def failure(self) -> WeightsDifferError | None:
        """Why a check failed, if it did."""
        lacking = [node.node for node in self.nodes if not node.complete]
        return WeightsDifferError(self.cluster, lacking) if self.checked and lacking else None

    def text(self) -> str:
        """The nodes as lines of plain text."""
        lines = [line for node in self.nodes for line in node.lines(checked=self.checked)]
        return "\n".join([f"{self.cluster}: the locked model", *(f"  {line}" for line in lines)])

    def as_json(self) -> dict[str, JsonValue]:
        """The nodes as a JSON object."""
        return {
            "cluster": self.cluster,
            "checked": self.checked,
            "complete": not self.checked or self.failure is None,
            "nodes": [node.as_json() for node in self.nodes],
        }
