"""How the ranks of several nodes find each other: rank 0 keeps a list at the master's address.

Every rank announces where it can be reached, waits until all have, and gets the whole list. The
connection stays open afterwards, as the one to PyTorch's store does.
"""

from __future__ import annotations

import errno
import socket
import time
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from vllm.distributed.channel import Channel, Message
from vllm.logger import init_logger
from vllm.utils.network_utils import connect
from vllm.version import __version__

logger = init_logger(__name__)

Address = Tuple[str, int]

_HELLO_TIMEOUT_S = 5.0
_RETRY_S = 0.1
_NOT_THERE_YET = {errno.ECONNREFUSED, errno.ECONNRESET, errno.ETIMEDOUT, errno.EHOSTUNREACH}


class RendezvousError(RuntimeError):
    """The ranks do not belong together."""


@dataclass
class Roll:
    """Where every rank listens for its peers, and where rank 0's engine listens for workers."""

    mesh: Dict[int, Address]
    message_queue: Optional[Address]
    kept_open: List[Channel] = field(default_factory=list)


def gather(
    listener: socket.socket,
    world_size: int,
    mesh: Address,
    message_queue: Optional[Address],
    timeout_s: Optional[float],
) -> Roll:
    """Rank 0's part: wait for all the others, then tell everyone. TimeoutError if one is missing.

    Without a time-out this waits for ever, in silence, as vLLM does.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    joined: Dict[int, Tuple[Channel, Address]] = {}
    while len(joined) < world_size - 1:
        left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
        listener.settimeout(left)
        try:
            connection, origin = listener.accept()
        except (TimeoutError, socket.timeout) as error:
            missing = sorted(set(range(1, world_size)) - set(joined))
            raise TimeoutError(
                f"Timed out after {timeout_s:g} seconds waiting for clients: "
                f"missing ranks {missing}"
            ) from error
        channel = Channel(connection)
        try:
            rank, address = _take_hello(channel, world_size)
        except (OSError, ValueError, KeyError) as error:
            logger.warning("Ignoring a connection from %s:%s: %s", *origin[:2], error)
            channel.close()
            continue
        joined[rank] = (channel, address)  # a rank that came again replaces its dead self
    addresses = {0: mesh, **{rank: address for rank, (_, address) in joined.items()}}
    for channel, _ in joined.values():
        channel.send({"mesh": sorted(addresses.items()), "message_queue": message_queue})
    return Roll(addresses, message_queue, [channel for channel, _ in joined.values()])


def _take_hello(channel: Channel, world_size: int) -> Tuple[int, Address]:
    channel.set_timeout(_HELLO_TIMEOUT_S)
    hello = channel.receive()
    if (hello["world_size"], hello["version"]) != (world_size, __version__):
        found = f"world size {hello['world_size']} and version {hello['version']}"
        problem = f"rank 0 has world size {world_size} and version {__version__}, not {found}"
        channel.send({"error": problem})
        raise ValueError(problem)
    rank = int(hello["rank"])
    if not 0 < rank < world_size:
        raise ValueError(f"rank {rank}")
    channel.set_timeout(None)
    host, port = hello["mesh"]
    return rank, (str(host), int(port))


def join(
    master: Address, rank: int, world_size: int, mesh: Address, timeout_s: Optional[float]
) -> Roll:
    """Another rank's part: announce itself to the master until it is there, and get the list."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    channel = Channel(_connect_until(master, mesh[0], deadline))
    if deadline is not None:
        channel.set_timeout(max(deadline - time.monotonic(), 0.001))
    hello: Message = {"rank": rank, "world_size": world_size, "version": __version__, "mesh": mesh}
    channel.send(hello)
    answer = channel.receive()
    channel.set_timeout(None)
    if "error" in answer:
        raise RendezvousError(answer["error"])
    addresses = {int(other): (str(host), int(port)) for other, (host, port) in answer["mesh"]}
    queue = answer["message_queue"]
    return Roll(addresses, (str(queue[0]), int(queue[1])) if queue else None, [channel])


def _connect_until(master: Address, source: str, deadline: Optional[float]) -> socket.socket:
    while True:
        try:
            return connect(*master, source)
        except OSError as error:
            late = deadline is not None and time.monotonic() > deadline
            if late or error.errno not in _NOT_THERE_YET:
                raise
            time.sleep(_RETRY_S)  # the head may start later than we do
