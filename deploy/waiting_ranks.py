"""What ranks that all run were probably waiting for, told from what the nodes' kernels show."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from deploy.actions import size_text
from deploy.scene import Stage
from deploy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from deploy.scene import RankScene, Scene, Socket
    from deploy.serving import MeetingPoint

FULL_BYTES: Final = 64 * 2**20
"""A file system with less than this free is as good as full."""

SCARCE: Final = 50
"""A node with less than one part in so many of its memory available does little but swap."""

IDLE_PERCENT: Final = 3
BUSY_PERCENT: Final = 90

WATCHED_STAGES: Final = (Stage.STARTED, Stage.MET)


def waiting(scene: Scene) -> Iterator[Verdict]:
    """Verdicts on a start whose ranks run and wait, the most telling first."""
    rules: Sequence[Callable[[Scene], Iterator[Verdict]]] = (
        _paused,
        _stopped,
        _full,
        _unreachable_master,
        _loopback,
        _never_met,
        _broken_link,
        _failing_server,
        _lost_peer,
        _starved,
        _deadlock,
        _slow,
        _silent_server,
    )
    if not all(item.alive for item in scene.ranks):
        return
    for rule in rules:
        yield from rule(scene)


def _who(item: RankScene) -> str:
    return f"rank {item.rank} on {item.node}"


def _paused(scene: Scene) -> Iterator[Verdict]:
    for item in scene.ranks:
        if item.alive and item.state is not None and item.state.paused:
            yield Verdict(
                what=f"{_who(item)}, whose container is paused",
                evidence=(f"the engine of {item.node} says that {item.container} is paused",),
                remedy="find out who paused it; inv deploy starts a pair anew",
                rank=item.rank,
            )


def _stopped(scene: Scene) -> Iterator[Verdict]:
    for item in scene.ranks:
        frozen = [process for process in item.kernel.processes if process.state in "Tt"]
        if frozen:
            yield Verdict(
                what=f"{_who(item)}, which is frozen: a signal stopped its processes",
                evidence=tuple(f"{item.place}: process {process.text}" for process in frozen[:3]),
                remedy="find out who stopped them (a debugger, SIGSTOP); inv deploy starts a pair "
                "anew",
                rank=item.rank,
            )


def _full(scene: Scene) -> Iterator[Verdict]:
    for item in scene.ranks:
        for path, free in item.kernel.disks:
            if free < FULL_BYTES:
                yield Verdict(
                    what=f"{_who(item)}, whose node has no room left at {path}",
                    evidence=(f"{item.place}: {size_text(free)} free at {path}",),
                    remedy="make room on the node: df -h; docker system df",
                    rank=item.rank,
                )


def _unreachable_master(scene: Scene) -> Iterator[Verdict]:
    meeting = scene.meeting
    if meeting is None or scene.stage is not Stage.STARTED:
        return
    for item in scene.ranks[1:]:
        calls = [s for s in _to(item, meeting) if s.state == "SYN-SENT"]
        if calls:
            yield Verdict(
                what=f"rank 0: {_who(item)} gets no answer from {_at(meeting)}, not even a refusal",
                evidence=tuple(f"{item.place}: {call.text}" for call in calls[:3]),
                remedy=f"see the cable and the firewalls of both nodes: nc -vz {meeting.address} "
                f"{meeting.port} on {item.node}; all TCP between the fabric addresses must pass",
                rank=item.rank,
            )


def _loopback(scene: Scene) -> Iterator[Verdict]:
    """VLLM's ranks then load their weights and wait for each other without a word."""
    if scene.meeting is None or scene.stage not in WATCHED_STAGES:
        return
    for item in scene.ranks:
        if item.alive and _is_loopback(item.host_ip):
            yield Verdict(
                what=f"{_who(item)}, which calls itself {item.host_ip}, where no other node is",
                evidence=(f"{item.place}: VLLM_HOST_IP={item.host_ip}",),
                remedy="take VLLM_HOST_IP out of [container].env and [[nodes]].env: sparklock sets "
                "it to the node's fabric address",
                rank=item.rank,
            )
    if _is_loopback(scene.meeting.address):
        yield Verdict(
            what=f"the head at {scene.meeting.address}, which is every node's own address",
            evidence=(f"--master-addr {scene.meeting.address}",),
            remedy="set fabric.address of the first node in cluster.toml",
        )


def _never_met(scene: Scene) -> Iterator[Verdict]:
    meeting = scene.meeting
    if meeting is None or scene.stage is not Stage.STARTED:
        return
    head = scene.ranks[0]
    listening = [
        item
        for item in head.kernel.sockets
        if item.state == "LISTEN" and item.local_port == meeting.port
    ]
    if not listening:
        yield Verdict(
            what=f"{_who(head)}, which does not listen on {_at(meeting)} yet",
            evidence=(f"{head.place}: no socket listens on port {meeting.port}", *_doing(head)),
            remedy="the head's log shows how far it came; if it is only slow, raise "
            "rendezvous_timeout_s in [serve]",
            rank=0,
        )
        return
    if all(item.local not in (meeting.address, "0.0.0.0", "::") for item in listening):  # noqa: S104
        yield Verdict(
            what=f"{_who(head)}, which listens on {listening[0].local} and not on {_at(meeting)}",
            evidence=tuple(f"{head.place}: {item.text}" for item in listening[:3]),
            remedy="correct fabric.address of the head in cluster.toml, or what overrides "
            "--master-addr",
            rank=0,
        )
        return
    for item in scene.ranks[1:]:
        if not any(s.state == "ESTABLISHED" for s in _to(item, meeting)):
            yield Verdict(
                what=f"{_who(item)}: the head listens, and this rank has not called it",
                evidence=(
                    f"{head.place}: {listening[0].text}",
                    f"{item.place}: no connection to {_at(meeting)}",
                    *_doing(item),
                ),
                remedy="its log shows how far it came; if it is only slow, raise "
                "rendezvous_timeout_s in [serve]",
                rank=item.rank,
            )


def _broken_link(scene: Scene) -> Iterator[Verdict]:
    """Bytes that nobody acknowledges and that were sent again: the network has stopped."""
    if scene.meeting is None:
        return
    for item in scene.ranks:
        stuck = [
            s
            for s in _between(scene, item)
            if s.unsent_bytes and s.retries and s.state != "SYN-SENT"
        ]
        calls = [s for s in _between(scene, item) if s.state == "SYN-SENT"]
        if stuck or calls:
            yield Verdict(
                what=f"the network: what {_who(item)} sends to the others is not acknowledged",
                evidence=tuple(f"{item.place}: {s.text}" for s in (*stuck, *calls)[:4]),
                remedy="see cable, MTU (9000 on both ends) and firewalls between the fabric "
                "addresses: all TCP must pass, on every port",
                rank=item.rank,
            )


def _lost_peer(scene: Scene) -> Iterator[Verdict]:
    meeting = scene.meeting
    if meeting is None or scene.stage is Stage.STARTED:
        return
    for item in scene.ranks[1:]:
        if item.alive and not any(s.state == "ESTABLISHED" for s in _between(scene, item)):
            yield Verdict(
                what=f"{_who(item)}, which has lost all connections to the others",
                evidence=(f"{item.place}: no connection between the fabric addresses",),
                remedy="its log shows whether it gave up; inv deploy starts a pair anew",
                rank=item.rank,
            )


def _failing_server(scene: Scene) -> Iterator[Verdict]:
    if scene.stage is Stage.API and scene.answer.text:
        yield Verdict(
            what="no rank: the server answers, and not with a completion",
            evidence=(scene.answer.text.strip()[:400],),
            remedy="the server's own words say why; the head's log below has more",
            rank=0,
        )


def _starved(scene: Scene) -> Iterator[Verdict]:
    for item in scene.ranks:
        free, whole = item.kernel.available_bytes, item.kernel.memory_bytes
        if free is not None and whole is not None and free * SCARCE < whole:
            yield Verdict(
                what=f"memory: the node of {_who(item)} has next to none available",
                evidence=(f"{item.place}: {size_text(free)} of {size_text(whole)} available",),
                remedy="lower gpu-memory-utilization in [serve.args], or end what else uses memory",
                rank=item.rank,
            )


def _deadlock(scene: Scene) -> Iterator[Verdict]:
    """Ranks that met and then do nothing, or nothing but turn: each waits for the others."""
    if scene.stage is not Stage.MET or scene.meeting is None:
        return
    use = [_cpu_percent(item) for item in scene.ranks]
    known = [percent for percent in use if percent is not None]
    if len(known) < len(use):
        return
    evidence = tuple(
        f"{item.place}: its processes use {percent} % of a core; {_connections(scene, item)}"
        for item, percent in zip(scene.ranks, known, strict=True)
    )
    if all(percent <= IDLE_PERCENT for percent in known):
        yield Verdict(
            what="one another: the ranks have met and all are idle, a deadlock",
            evidence=evidence,
            remedy="see that VLLM_HOST_IP is each node's fabric address, that "
            "--disable-custom-all-reduce is set, and that compile and autotune caches are equal on "
            "all nodes (clear them)",
        )


def _slow(scene: Scene) -> Iterator[Verdict]:
    if scene.stage not in WATCHED_STAGES:
        return
    for item in scene.ranks:
        reading = [process for process in item.kernel.processes if process.state == "D"]
        if reading:
            yield Verdict(
                what=f"a device: {_who(item)} reads or writes, and waits for that",
                evidence=tuple(f"{item.place}: process {p.text}" for p in reading[:3]),
                remedy="see dmesg and the disk of the node; if it is only slow to load, raise "
                "start_timeout_s in [serve]",
                rank=item.rank,
            )
    busy = [item for item in scene.ranks if (_cpu_percent(item) or 0) >= BUSY_PERCENT]
    if busy:
        some = " and ".join(_who(item) for item in busy)
        yield Verdict(
            what=f"work that takes longer, or a rank that turns round a lock: {some} is busy",
            evidence=tuple(
                f"{item.place}: its processes use {_cpu_percent(item)} % of a core" for item in busy
            ),
            remedy="if its log still moves, raise start_timeout_s in [serve] (kernels are compiled "
            "at the first start); if not, clear the compile caches on all nodes",
            rank=busy[0].rank if len(busy) == 1 else None,
        )


def _silent_server(scene: Scene) -> Iterator[Verdict]:
    """The API is up and answers no completion, and nothing else is to be seen."""
    if scene.stage is not Stage.API:
        return
    evidence = tuple(
        line for item in scene.ranks for line in (f"{item.place}: {_connections(scene, item)}",)
    )
    yield Verdict(
        what="a rank that does not take part: the API is up and no completion comes",
        evidence=(*evidence, *(line for item in scene.ranks for line in _doing(item))),
        remedy="if the first completion only compiles kernels, raise completion_timeout_s in "
        "[serve]; else compare the ranks' last lines below",
    )


def _to(item: RankScene, meeting: MeetingPoint) -> list[Socket]:
    """A rank's sockets to where the ranks meet."""
    place = (meeting.address, meeting.port)
    return [s for s in item.kernel.sockets if (s.remote, s.remote_port) == place]


def _between(scene: Scene, item: RankScene) -> list[Socket]:
    """A rank's sockets to the other nodes of the start."""
    others = {other.host_ip for other in scene.ranks if other.rank != item.rank}
    if scene.meeting is not None and item.rank:
        others.add(scene.meeting.address)
    others.discard("")
    return [s for s in item.kernel.sockets if s.remote in others]


def _connections(scene: Scene, item: RankScene) -> str:
    count = sum(s.state == "ESTABLISHED" for s in _between(scene, item))
    return f"{count} connections to the others"


def _cpu_percent(item: RankScene) -> int | None:
    """What all processes of a rank use together, of one core; None if that is not known."""
    used = [process.cpu_percent for process in item.kernel.processes]
    known = [percent for percent in used if percent is not None]
    return sum(known) if known else None


def _doing(item: RankScene) -> Iterator[str]:
    for process in item.kernel.processes[:4]:
        yield f"{item.place}: process {process.text}"
    last = next((line for line in reversed(item.log) if line.strip()), "")
    yield f"{item.place}: its last line: {last.strip()[:300] or '(its log is empty)'}"


def _at(meeting: MeetingPoint) -> str:
    return f"{meeting.address}:{meeting.port}"


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
