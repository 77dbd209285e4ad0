"""What `inv boot` says: what is declared, what each node has, and what was done about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.errors import ChecksFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import JsonValue
    from builder.errors import SparklockError

INSTALL = "run `inv boot --install`"


@dataclass(frozen=True, slots=True)
class NodeBoot:
    """What a node has of the unit.

    `version` is empty when nothing is installed. `outdated` are files that are missing, or not as
    today's manifest and sparklock would write them. `enabled` and `active` are systemd's words;
    `said` is what the program said last, and `done` what this run did.
    """

    node: str
    version: str
    outdated: tuple[str, ...]
    enabled: str
    active: str
    said: str = ""
    done: str = ""

    @property
    def installed(self) -> bool:
        """Whether anything of it is there."""
        return bool(self.version)

    @property
    def right(self) -> bool:
        """Whether it is all there as it should be, and runs."""
        return self.installed and not self.outdated and self._runs

    @property
    def _runs(self) -> bool:
        return self.enabled == "enabled" and self.active == "active"

    def text(self) -> str:
        """The node in one line, and a second with the program's last words."""
        done = f"{self.done}: " if self.done else ""
        if not self.installed:
            return f"{self.node}  {self.done or 'not installed'}"
        line = f"{self.node}  {done}version {self.version}, {self.enabled}, {self.active}"
        if self.outdated:
            line += f"; made for another cluster.toml or sparklock: {', '.join(self.outdated)}"
        return f"{line}\n  {self.said}" if self.said else line

    def as_json(self) -> dict[str, JsonValue]:
        """The node as a JSON object."""
        return {
            "node": self.node,
            "installed": self.installed,
            "version": self.version,
            "outdated": list(self.outdated),
            "enabled": self.enabled,
            "active": self.active,
            "said": self.said,
            "done": self.done,
        }


@dataclass(frozen=True, slots=True)
class BootReport:
    """What is declared and what the nodes have; `failure` is why some are not in it."""

    cluster: str
    declared: str
    nodes: tuple[NodeBoot, ...]
    failure: SparklockError | None = None

    @property
    def as_declared(self) -> bool:
        """Whether the nodes do after a restart what the manifest says."""
        if self.declared == "pair":
            return all(node.right for node in self.nodes)
        return not any(node.installed for node in self.nodes)

    @property
    def exit_code(self) -> int:
        """0 if the nodes do as declared, else as for checks that failed (6)."""
        return 0 if self.as_declared else ChecksFailedError.exit_code

    def text(self) -> str:
        """The report as lines of plain text."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f'{self.cluster}: [container] on_boot = "{self.declared}"'
        yield from (node.text() for node in self.nodes)
        if self.declared == "pair" and any(node.done == "removed" for node in self.nodes):
            yield f'cluster.toml still asks for it: on_boot = "never", or {INSTALL}'
        elif not self.as_declared:
            yield INSTALL if self.declared == "pair" else "run `inv boot --remove`"

    def as_json(self) -> dict[str, JsonValue]:
        """The report as a JSON object."""
        failures = () if self.failure is None else self.failure.messages
        return {
            "cluster": self.cluster,
            "on_boot": self.declared,
            "as_declared": self.as_declared,
            "nodes": [node.as_json() for node in self.nodes],
            "failures": [message.as_json() for message in failures],
        }
