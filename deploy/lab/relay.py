"""The process that a node's cable leads through while it is slow or loses frames.

Many kernels lack tc's netem, so frames are carried by hand, in the hub: from the node's port to a
link of our own into the bridge, and back. A frame comes with what the sender's kernel left to the
network card (checksum, segmentation), so that large ones pass as they are. Started by links.py as
`python -m deploy.lab.relay SETTINGS_FILE`; it says `ready` and carries until it is killed.
"""

from __future__ import annotations

import heapq
import json
import random
import selectors
import socket
import struct
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

READY: Final = "ready"
LARGEST_BYTES: Final = 10 + 14 + 65536
"""What precedes a frame here, its header, and the largest that a kernel leaves unsegmented."""

_SOL_PACKET: Final = 263
_ADD_MEMBERSHIP: Final = 1
_VNET_HDR: Final = 15
_IGNORE_OUTGOING: Final = 23
_PROMISCUOUS: Final = 1
_ALL_PROTOCOLS: Final = 3


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """The links to join, as (node's side, bridge's side), and what becomes of frames on the way.

    `delay_s` is for each direction, `loss` the share of frames that is lost, 0 to 1.
    """

    links: tuple[tuple[str, str], ...]
    delay_s: float
    loss: float

    def write(self, path: Path) -> None:
        """Nothing; the file holds the settings."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> RelaySettings:
        """The settings in a file."""
        told = json.loads(path.read_text())
        links = tuple((str(node), str(bridge)) for node, bridge in told["links"])
        return cls(links, float(told["delay_s"]), float(told["loss"]))


class Line:
    """The frames on their way, in the order they are due; the same seed loses the same ones."""

    def __init__(self, *, delay_s: float, loss: float, seed: int = 1) -> None:
        self._delay_s = delay_s
        self._loss = loss
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._due: list[tuple[float, int, int, bytes]] = []
        self._taken = 0

    def take(self, now_s: float, out: int, frame: bytes) -> None:
        """Accept a frame for the outlet `out`, or lose it."""
        if self._chance.random() < self._loss:
            return
        self._taken += 1  # frames of one moment keep their order
        heapq.heappush(self._due, (now_s + self._delay_s, self._taken, out, frame))

    def give(self, now_s: float) -> tuple[tuple[int, bytes], ...]:
        """The frames that have arrived, with their outlets."""
        arrived = []
        while self._due and self._due[0][0] <= now_s:
            _, _, out, frame = heapq.heappop(self._due)
            arrived.append((out, frame))
        return tuple(arrived)

    def wait_s(self, now_s: float) -> float | None:
        """How long until the next frame arrives; None if none is on the way."""
        return max(0.0, self._due[0][0] - now_s) if self._due else None


def tap(link: str) -> socket.socket:
    """All frames that arrive on a link, whomever they are for, and a way to send others."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    opened.setsockopt(_SOL_PACKET, _VNET_HDR, 1)
    opened.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    opened.bind((link, _ALL_PROTOCOLS))
    membership = struct.pack("IHH8s", socket.if_nametoindex(link), _PROMISCUOUS, 0, bytes(8))
    opened.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)
    return opened


def carry(settings: RelaySettings) -> None:
    """Never; carries frames both ways on every link."""
    line = Line(delay_s=settings.delay_s, loss=settings.loss)
    taps = [tap(link) for pair in settings.links for link in pair]
    selector = selectors.DefaultSelector()
    for index, end in enumerate(taps):
        selector.register(end, selectors.EVENT_READ, index)
    print(READY, flush=True)  # noqa: T201 - links.py reads it
    while True:
        for key, _ in selector.select(line.wait_s(time.monotonic())):
            frame = taps[key.data].recv(LARGEST_BYTES)
            line.take(time.monotonic(), key.data ^ 1, frame)
        for out, frame in line.give(time.monotonic()):
            _send(taps[out], frame)


def _send(out: socket.socket, frame: bytes) -> None:
    try:
        out.send(frame)
    except (
        OSError
    ):  # a queue that is full or a link that is down: the frame is lost, as on any wire
        return


if __name__ == "__main__":
    carry(RelaySettings.read(Path(sys.argv[1])))
