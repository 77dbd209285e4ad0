"""What a node's engine tells of the containers that run there, as comparing with the lock needs it.

The engine's own answers (Docker Engine API 1.41) come in as parsed JSON, and leave as values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from builder import labels as keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from builder.digest import JsonValue
    from deploy.state import NodeState

NEVER_ENDED = "0001-01-01T00:00:00Z"
"""What the engine says of the end of a container that has been started once and runs since."""


class Cause(Enum):
    """Who made a difference."""

    INPUTS = "cluster.toml, lockfile.json or sparklock changed since the deploy"
    PERSON = "a person changed it on the node"
    DISK = "the file changed on the node's disk"
    UNKNOWN = "the node's records do not tell who"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing on one node that is not as lock and manifest say; `what` is its name."""

    node: str
    what: str
    expected: str
    found: str
    cause: Cause
    remedy: str


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a container, by the node's own numbers; `args` are joined by spaces."""

    pid: int
    parent: int
    args: str


@dataclass(frozen=True, slots=True)
class Inspected:
    """One container as the engine has it.

    `config` and `host` are the engine's `Config` and `HostConfig`. `image_env` and `image_labels`
    are those of the image it was made from, which the engine mixes with the container's own.
    `written` are the files that were made, changed or removed (`A`, `C`, `D` before the path) in
    the container's own layer. `ended` says that it was started more than once.
    """

    name: str
    image_id: str
    config: Mapping[str, JsonValue]
    host: Mapping[str, JsonValue]
    running: bool
    paused: bool
    exit_code: int
    pid: int
    restarts: int
    ended: bool
    image_env: frozenset[str] = frozenset()
    image_labels: frozenset[str] = frozenset()
    processes: tuple[Process, ...] = ()
    written: tuple[str, ...] = ()

    @property
    def labels(self) -> Mapping[str, str]:
        """All labels, those of the image too."""
        found = self.config.get("Labels")
        return {k: str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    @property
    def generation(self) -> int:
        """The generation its label tells; -1 if it tells none."""
        return _number(self.labels.get(keys.GENERATION))

    @property
    def rank(self) -> int:
        """The rank its label tells; -1 if it tells none."""
        return _number(self.labels.get(keys.RANK))


@dataclass(frozen=True, slots=True)
class Stranger:
    """A running container without our labels that runs our image or has a name like ours."""

    name: str
    image: str


@dataclass(frozen=True, slots=True)
class Witnessed:
    """One node: what planning observes of it, and its containers in full, sorted by name."""

    state: NodeState
    containers: tuple[Inspected, ...]
    strangers: tuple[Stranger, ...]


def inspected(
    found: Mapping[str, Any],
    image: Mapping[str, Any],
    top: Mapping[str, Any],
    changes: Sequence[Mapping[str, Any]],
) -> Inspected:
    """A container from the engine's answers: to inspect, inspect of its image, top and changes."""
    state, of_image = found["State"], image.get("Config") or {}
    return Inspected(
        name=str(found["Name"]).removeprefix("/"),
        image_id=str(found["Image"]),
        config=found["Config"],
        host=found["HostConfig"],
        running=bool(state["Running"]),
        paused=bool(state["Paused"]),
        exit_code=int(state["ExitCode"]),
        pid=int(state["Pid"]),
        restarts=int(found.get("RestartCount") or 0),
        ended=str(state["FinishedAt"]) != NEVER_ENDED,
        image_env=frozenset(map(str, of_image.get("Env") or ())),
        image_labels=frozenset(map(str, of_image.get("Labels") or ())),
        processes=tuple(_process(row) for row in top.get("Processes") or ()),
        written=written(changes),
    )


def written(changes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The files of `docker diff`, sorted; folders that only hold a changed file are left out."""
    kinds = {str(item["Path"]): "CAD"[int(item["Kind"])] for item in changes}
    parents = {path.rpartition("/")[0] for path in kinds}
    return tuple(f"{kinds[path]} {path}" for path in sorted(kinds) if path not in parents)


def strangers(
    listed: Sequence[Mapping[str, Any]], cluster: str, image_ids: frozenset[str]
) -> tuple[Stranger, ...]:
    """The running containers that are no cluster's and look as if they were this one's.

    Another cluster's may have the very same image, or a name that begins like ours.
    """
    found = []
    for item in listed:
        name = str((item.get("Names") or [""])[0]).removeprefix("/")
        image = str(item.get("Image"))
        alike = (
            str(item.get("ImageID")) in image_ids
            or image.startswith(f"sparklock/{cluster}:")
            or name.startswith(f"sparklock-{cluster}-")
        )
        of_a_cluster = keys.CLUSTER in (item.get("Labels") or {})
        if alike and not of_a_cluster and item.get("State") == "running":
            found.append(Stranger(name, image))
    return tuple(sorted(found, key=lambda stranger: stranger.name))


def _process(row: Sequence[str]) -> Process:
    """A row of `docker top -eo pid,ppid,args`."""
    return Process(int(row[0]), int(row[1]), str(row[2]).strip())


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else -1
