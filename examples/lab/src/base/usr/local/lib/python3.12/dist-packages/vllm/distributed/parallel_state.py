"""The tensor-parallel group of this process: its rank, its peers, and sums over all of them."""

from __future__ import annotations

import socket
from array import array
from dataclasses import dataclass
from itertools import chain
from operator import add
from typing import Dict, List, Optional, Sequence

from vllm.distributed import rendezvous
from vllm.distributed.channel import Channel
from vllm.distributed.rendezvous import Address, Roll
from vllm.logger import init_logger
from vllm.utils.network_utils import connect, listen

logger = init_logger(__name__)

Rows = List[List[float]]

MAX_WORLD_SIZE = 4
"""The most ranks that the fixed order of additions below allows."""


def pairwise_sum(parts: Sequence[Sequence[float]]) -> List[float]:
    """The sum of 1, 2 or 4 equally long vectors, neighbours first: (0+1)+(2+3).

    Floating-point addition is not associative, so the order is part of the result. Every sum that
    tensor parallelism splits is made of the same four parts in this one order, whether one rank
    holds all four or four ranks hold one each; so 1, 2 and 4 ranks give the same bits.
    """
    level = [list(part) for part in parts]
    while len(level) > 1:
        level = [list(map(add, a, b)) for a, b in zip(level[::2], level[1::2])]
    return level[0]


class GroupCoordinator:
    """This rank's connections to all other ranks."""

    def __init__(self, rank: int, world_size: int, peers: Dict[int, Channel]) -> None:
        self.rank_in_group = rank
        self.world_size = world_size
        self._peers = peers

    def all_reduce(self, rows: Rows) -> Rows:
        """The sum of every rank's rows, the same bits on each of them."""
        if self.world_size == 1:
            return rows
        width = len(rows[0])
        total = pairwise_sum(self._exchange(array("d", chain.from_iterable(rows))))
        return [total[start : start + width] for start in range(0, len(total), width)]

    def all_gather(self, rows: Rows) -> Rows:
        """Every rank's rows side by side, in the order of the ranks."""
        if self.world_size == 1:
            return rows
        width = len(rows[0])
        parts = self._exchange(array("d", chain.from_iterable(rows)))
        return [
            list(chain.from_iterable(part[start : start + width] for part in parts))
            for start in range(0, len(parts[0]), width)
        ]

    def _exchange(self, ours: array[float]) -> List[array[float]]:
        """Every rank's vector, in the order of the ranks; all are of one length.

        Each pair of ranks takes its turn in the same order everywhere, and the lower rank of a pair
        sends first, so no two ranks can wait for each other.
        """
        parts = {self.rank_in_group: ours}
        for peer, channel in self._peers.items():
            if self.rank_in_group < peer:
                channel.send_floats(ours)
                parts[peer] = channel.receive_floats(len(ours))
            else:
                parts[peer] = channel.receive_floats(len(ours))
                channel.send_floats(ours)
        return [parts[rank] for rank in range(self.world_size)]


_TP = GroupCoordinator(0, 1, {})
_roll: Optional[Roll] = None


def get_tp_group() -> GroupCoordinator:
    """The tensor-parallel group of this process."""
    return _TP


def get_tensor_model_parallel_rank() -> int:
    """This process's rank in the tensor-parallel group."""
    return _TP.rank_in_group


def get_tensor_model_parallel_world_size() -> int:
    """How many ranks share every layer."""
    return _TP.world_size


@dataclass(frozen=True)
class RankPlace:
    """Who a rank is, where it is, and where it finds the others.

    `host_ip` is this node's address on the fabric; `timeout_s` of None waits for ever.
    """

    rank: int
    local_rank: int
    world_size: int
    host_ip: str
    master: Address
    timeout_s: Optional[float]


def init_distributed_environment(
    place: RankPlace, store: Optional[socket.socket], message_queue: Optional[Address]
) -> Optional[Address]:
    """Connect this rank with all others; the address of the head's message queue.

    `store` is rank 0's listening socket at the master's address; only rank 0 knows the queue's
    address beforehand. Peers connect from and to the host IP, so their traffic stays on the fabric.
    Raises TimeoutError or RendezvousError.
    """
    global _TP, _roll
    rank, world_size = place.rank, place.world_size
    logger.info(
        "world_size=%d rank=%d local_rank=%d distributed_init_method=tcp://%s:%d backend=tcp",
        world_size,
        rank,
        place.local_rank,
        *place.master,
    )
    if world_size > 1:
        listener = listen(place.host_ip, 0)
        mesh = (place.host_ip, int(listener.getsockname()[1]))
        if store is not None:
            _roll = rendezvous.gather(store, world_size, mesh, message_queue, place.timeout_s)
        else:
            _roll = rendezvous.join(place.master, rank, world_size, mesh, place.timeout_s)
        _TP = GroupCoordinator(
            rank, world_size, _connect_mesh(rank, listener, place.host_ip, _roll)
        )
        listener.close()
    logger.info(
        "rank %d in world size %d is assigned as DP rank 0, PP rank 0, PCP rank 0, "
        "TP rank %d, EP rank N/A",
        rank,
        world_size,
        rank,
    )
    return _roll.message_queue if _roll else message_queue


def _connect_mesh(
    rank: int, listener: socket.socket, host_ip: str, roll: Roll
) -> Dict[int, Channel]:
    """A channel to every other rank, in the order of the ranks: we call the lower ones."""
    peers = {}
    for other in range(rank):
        peers[other] = Channel(connect(*roll.mesh[other], host_ip))
        peers[other].send({"rank": rank})
    while len(peers) < len(roll.mesh) - 1:
        channel = Channel(listener.accept()[0])
        peers[int(channel.receive()["rank"])] = channel
    return dict(sorted(peers.items()))
