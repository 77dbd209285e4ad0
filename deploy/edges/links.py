"""The ways between nodes, tried by the nodes themselves: ping, TCP, and packets of full size.

Dearer than a look: two sessions on every node, and seconds where packets are lost. So a deploy that
changes nothing does without.
"""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deploy.edges.programs import end_of, read_line, write
from deploy.links import pings, way_facts, ways
from deploy.together import together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from builder.manifest import ClusterManifest
    from deploy.edges.ssh import NodeConnection
    from deploy.links import Ping, Way, WayFacts

PROGRAM: Final = Path(__file__).with_name("peers.py")
PING: Final = Path(__file__).with_name("ping.sh")

OPENS_S: Final = 15.0
"""What a node's python3 may take to start and listen, on a busy node too."""

TRIES_S: Final = 15.0
"""What all its tries may take together; each has a limit of its own, of a second or two."""


class _Peers:
    """The program on one node, from its start to its end; `problem` says why it does not run."""

    def __init__(self, connection: NodeConnection) -> None:
        self.problem = ""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        argv = ("python3", "-I", "-c", PROGRAM.read_text())
        self._process = connection.start(argv, self._stderr)

    def ask(self, question: object, timeout_s: float) -> dict[str, Any]:
        """The program's answer; empty, with the problem noted, when it gives none."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.problem:
            return {}
        write(self._process.stdin, json.dumps(question).encode() + b"\n")
        line = read_line(self._process.stdout, timeout_s)
        answer = _object_in(line)
        if answer is not None:
            return answer
        self._stderr.seek(0)
        said = end_of(self._stderr.read()).splitlines()[-1:]
        self.problem = said[0] if said else "no answer in time"
        return {}

    def close(self) -> None:
        """End it: it has nothing to read any more."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.kill()
        process.wait()
        self._stderr.close()


def _object_in(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a whole line; None if it is none."""
    try:
        found = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def try_links(
    manifest: ClusterManifest, connections: Mapping[str, NodeConnection]
) -> tuple[WayFacts, ...]:
    """What came of every way between the nodes that are in reach, all tried at the same time.

    NodeError when a connection breaks; what a node cannot do is in the facts.
    """
    there = [way for way in ways(manifest) if {way.node, way.peer} <= connections.keys()]
    with ThreadPoolExecutor(1) as pool:
        pinged = pool.submit(_ping, there, connections)
        told, problems = _tried(manifest, there, connections)
        answers = pinged.result()
    return tuple(
        way_facts(
            way,
            answers.get((str(way.source), str(way.target))),
            told.get(way.node, {}).get(f"{way.source} {way.target}"),
            problems.get(way.node) or problems.get(way.peer, ""),
        )
        for way in there
    )


def _ping(
    there: Sequence[Way], connections: Mapping[str, NodeConnection]
) -> dict[tuple[str, str], Ping]:
    script = PING.read_bytes()

    def of_node(name: str, connection: NodeConnection) -> dict[tuple[str, str], Ping]:
        own = (way for way in there if way.node == name)
        words = (str(part) for w in own for part in (w.source, w.target, w.payload_bytes))
        done = connection.run(("sh", "-s", "--", *words), stdin=script)
        return pings(done.stdout.decode(errors="replace"))

    found = together({name: partial(of_node, name, link) for name, link in connections.items()})
    return {key: ping for of_one in found.values() for key, ping in of_one.items()}


def _tried(
    manifest: ClusterManifest, there: Sequence[Way], connections: Mapping[str, NodeConnection]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What each node's program told, by node, and why others told nothing."""
    peers = together({name: partial(_Peers, link) for name, link in connections.items()})
    try:
        opened = together(
            {name: partial(_open, manifest, name, each) for name, each in peers.items()}
        )
        told = together(
            {
                name: partial(each.ask, _questions(name, there, opened), TRIES_S)
                for name, each in peers.items()
            }
        )
        problems = {name: each.problem for name, each in peers.items() if each.problem}
        for name, addresses in opened.items():
            for answer in addresses.values():
                if "problem" in answer:
                    problems.setdefault(name, f"{name} could not listen: {answer['problem']}")
        return told, problems
    finally:
        together({name: each.close for name, each in peers.items()})


def _open(manifest: ClusterManifest, name: str, peers: _Peers) -> dict[str, Any]:
    """The ports that a node's program listens on, by fabric address.

    The head's first address also has the port where the ranks will meet: a firewall may know it.
    """
    node = next(node for node in manifest.nodes if node.name == name)
    addresses = node.fabric.addresses if node.fabric else ()
    meeting = [manifest.serve.master_port] if node is manifest.head else []
    asked = [[str(item), [] if index else meeting] for index, item in enumerate(addresses)]
    return peers.ask(asked, OPENS_S)


def _questions(
    name: str, there: Sequence[Way], opened: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What a node has to try: every way of its own whose two ends listen."""
    asked = []
    for way in there:
        own = opened[way.node].get(str(way.source), {})
        peer = opened[way.peer].get(str(way.target), {})
        if way.node == name and "tcp" in own and "tcp" in peer:
            asked.append(
                {
                    "source": str(way.source),
                    "target": str(way.target),
                    "size": way.payload_bytes,
                    **peer,
                }
            )
    return asked
