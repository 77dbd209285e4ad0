"""What the nodes show of a start that fails or hangs: values, and how a node's text becomes them.

Everything here is what the kernel, the engine or a rank's own log told. What it may mean stands in
deploy/diagnosis.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from deploy.parse import address_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from deploy.serving import MeetingPoint, ServingAddress
    from deploy.state import Completion, RankState

TCP_STATES: Final[Mapping[str, str]] = {
    "01": "ESTABLISHED",
    "02": "SYN-SENT",
    "03": "SYN-RECV",
    "04": "FIN-WAIT-1",
    "05": "FIN-WAIT-2",
    "06": "TIME-WAIT",
    "07": "CLOSE",
    "08": "CLOSE-WAIT",
    "09": "LAST-ACK",
    "0A": "LISTEN",
    "0B": "CLOSING",
}
"""As /proc/net/tcp spells them, and as `ss` does."""

SECTION: Final = "\x1e"
"""Begins the name of each part of what a node prints of itself."""

CLOCK_TICKS: Final = 100
"""Of processor time in a second (USER_HZ, the same on every Linux that we meet)."""

SAMPLE_S: Final = 1
"""Between the two looks at the processes, from which their use of the processor is told."""


class Stage(Enum):
    """How far a start has come, by facts that can be observed from outside."""

    STARTED = "the containers run"
    MET = "the ranks have met"
    API = "the API answers"
    ANSWERED = "a completion has come"


@dataclass(frozen=True, slots=True)
class Socket:
    """A TCP socket of a node; `state` as `ss` names it.

    `unsent_bytes` wait for an acknowledgement, and `retries` counts how often they were sent again.
    """

    local: str
    local_port: int
    remote: str
    remote_port: int
    state: str
    unsent_bytes: int = 0
    retries: int = 0

    @property
    def text(self) -> str:
        """The socket in one line."""
        queue = f", {self.unsent_bytes} bytes unacknowledged" if self.unsent_bytes else ""
        retries = f", sent again {self.retries} times" if self.retries else ""
        ends = f"{self.local}:{self.local_port} -> {self.remote}:{self.remote_port}"
        if self.state == "LISTEN":
            ends = f"{self.local}:{self.local_port}"
        return f"{self.state} {ends}{queue}{retries}"


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a rank's container.

    `state` is the kernel's letter: R runs, S sleeps, D waits for a device, T is stopped, Z has
    ended. `cpu_percent` is of one core over a second; None if it was seen once only.
    """

    pid: int
    title: str
    state: str
    cpu_percent: int | None = None

    @property
    def text(self) -> str:
        """The process in one line."""
        cpu = "" if self.cpu_percent is None else f", {self.cpu_percent} % of a core"
        return f"{self.pid} {self.state} {self.title}{cpu}"


@dataclass(frozen=True, slots=True)
class NodeScene:
    """What one node's kernel shows; sizes in bytes, None where it did not tell.

    `disks` are the free bytes of the file systems that matter, by path.
    """

    sockets: tuple[Socket, ...] = ()
    processes: tuple[Process, ...] = ()
    memory_bytes: int | None = None
    available_bytes: int | None = None
    disks: tuple[tuple[str, int], ...] = ()
    gpu_processes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankScene:
    """One rank, as its node shows it; `fault` is why not all of it could be asked.

    `state` is None when nothing could be. `host_ip` is what the rank tells others as its address
    (VLLM_HOST_IP), and `log` its last lines since this start. `first` says that it was seen to end
    before others.
    """

    node: str
    rank: int
    container: str
    state: RankState | None
    log: tuple[str, ...] = ()
    kernel: NodeScene = field(default_factory=NodeScene)
    fault: str = ""
    first: bool = False

    @property
    def place(self) -> str:
        """The rank as a message names it."""
        return f"node {self.node}, rank {self.rank}"

    @property
    def alive(self) -> bool:
        """Whether its container runs."""
        return self.state is not None and self.state.running

    @property
    def host_ip(self) -> str:
        """What the rank tells others as its address; empty when it was told none."""
        return "" if self.state is None else self.state.host_ip


@dataclass(frozen=True, slots=True)
class Scene:
    """A start that failed or hangs: how far it came, and every rank, head first.

    `meeting` is None for a single node. `answer` is the last that was heard of the API.
    """

    stage: Stage
    ranks: tuple[RankScene, ...]
    serving: ServingAddress
    meeting: MeetingPoint | None
    answer: Completion


def sockets(lines: Iterable[str]) -> tuple[Socket, ...]:
    """The sockets in lines of /proc/net/tcp and /proc/net/tcp6, in their order."""
    return tuple(_sockets(lines))


def _sockets(lines: Iterable[str]) -> Iterator[Socket]:
    for line in lines:
        fields = line.split()
        if len(fields) < 7 or fields[3] not in TCP_STATES:  # noqa: PLR2004 - up to `retrnsmt`
            continue
        local, _, local_port = fields[1].partition(":")
        remote, _, remote_port = fields[2].partition(":")
        yield Socket(
            local=address_of(local),
            local_port=int(local_port, 16),
            remote=address_of(remote),
            remote_port=int(remote_port, 16),
            state=TCP_STATES[fields[3]],
            # A listening socket has its backlog there.
            unsent_bytes=0 if fields[3] == "0A" else int(fields[4].partition(":")[0], 16),
            retries=int(fields[6], 16),
        )


def has_met(found: Iterable[Socket], meeting: MeetingPoint) -> bool:
    """Whether a node has a connection to where the ranks meet; for every node but the head's."""
    return any(
        (item.remote, item.remote_port, item.state)
        == (meeting.address, meeting.port, "ESTABLISHED")
        for item in found
    )


def node_scene(told: str) -> NodeScene:
    """A node's own account of itself, as the program of deploy/edges/scene.py prints it."""
    parts = dict(_parts(told))
    memory = _memory(parts.get("memory", ()))
    return NodeScene(
        sockets=sockets(parts.get("sockets", ())),
        processes=_processes(parts),
        memory_bytes=memory.get("MemTotal"),
        available_bytes=memory.get("MemAvailable"),
        disks=_disks(parts.get("disks", ())),
        gpu_processes=tuple(line.strip() for line in parts.get("gpu", ()) if line.strip()),
    )


def _parts(told: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for part in told.split(SECTION)[1:]:
        # Not splitlines: a process's title may hold any character.
        name, *lines = part.split("\n")
        yield name, tuple(lines)


def _memory(lines: Iterable[str]) -> dict[str, int]:
    """Sizes of /proc/meminfo, in bytes."""
    pairs = (line.partition(":") for line in lines)
    found = ((name, value.split()) for name, _, value in pairs)
    return {name: int(words[0]) * 1024 for name, words in found if words and words[0].isdecimal()}


def _disks(lines: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Free bytes by path, of `df -P -k` asked for paths one by one; what is not there is left out.

    Each line is a path and what df printed last for it.
    """
    found = []
    for line in lines:
        path, _, rest = line.partition("\t")
        fields = rest.split()
        if len(fields) > 3 and fields[3].isdecimal():  # noqa: PLR2004 - the field `Available`
            found.append((path, int(fields[3]) * 1024))
    return tuple(found)


def _processes(parts: Mapping[str, tuple[str, ...]]) -> tuple[Process, ...]:
    """The processes that were there at the first look, with what they used until the second."""
    before, after = (dict(_stats(parts.get(name, ()))) for name in ("stat", "stat again"))
    titles = dict(_titles(parts.get("titles", ())))
    found = []
    for pid, (state, name, ticks) in sorted(before.items()):
        later = after.get(pid)
        used = None if later is None else (later[2] - ticks) * 100 // (CLOCK_TICKS * SAMPLE_S)
        found.append(Process(pid, titles.get(pid) or name, later[0] if later else state, used))
    return tuple(found)


def _stats(lines: Iterable[str]) -> Iterator[tuple[int, tuple[str, str, int]]]:
    """State, name and used clock ticks by pid, of /proc/PID/stat (proc(5)).

    The name stands in parentheses and may hold any character, parentheses too.
    """
    for line in lines:
        pid, has_name, rest = line.partition(" (")
        name, _, fields = rest.rpartition(")")
        words = fields.split()
        if has_name and pid.isdecimal() and len(words) > 12:  # noqa: PLR2004 - up to `stime`
            yield int(pid), (words[0], name, int(words[11]) + int(words[12]))


def _titles(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The first words of each command line by pid; arguments end with a zero byte."""
    for line in lines:
        pid, _, title = line.partition("\t")
        if pid.isdecimal():
            yield int(pid), " ".join(title.replace("\0", " ").split())[:80]
