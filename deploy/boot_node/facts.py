"""What the program on each node is told at installation, what it reports, what it remembers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = 1
"""Of this program and of what its copies say to each other: all nodes must have the same."""


@dataclass(frozen=True)
class Config:
    """What was installed beside this file; `peers` are (node, fabric address), by rank."""

    cluster: str
    node: str
    rank: int
    docker_socket: str
    port: int
    peers: tuple[tuple[str, str], ...]
    folder: str
    poll_s: float = 2.0
    settle_s: float = 60.0
    pauses_s: tuple[float, ...] = (10.0, 60.0)

    @classmethod
    def read(cls, text: str) -> Config:
        """The configuration of a JSON text."""
        values = json.loads(text)
        peers = tuple((str(name), str(address)) for name, address in values.pop("peers"))
        pauses = tuple(values.pop("pauses_s", cls.pauses_s))
        return cls(peers=peers, pauses_s=pauses, **values)


@dataclass(frozen=True)
class Report:
    """How a node's rank stands in the current generation, whose names have no end.

    `engine` is another text after every start of engine or node. `other` is a container of the
    cluster that runs and is not current: a deploy or a rollback is at work, or was cut off.
    """

    node: str
    version: int = VERSION
    problem: str = ""
    engine: str = ""
    generation: int = 0
    container: str = ""
    running: bool = False
    started: str = ""
    other: str = ""


@dataclass(frozen=True)
class Memory:
    """The pair as rank 0's copy has seen it last; `up` says that it ran, or should again."""

    generation: int
    containers: Mapping[str, str]
    engines: Mapping[str, str]
    started: Mapping[str, str]
    up: bool
    attempts: int = 0
    tried: Mapping[str, str] = field(default_factory=dict)
