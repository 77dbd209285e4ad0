"""One process per rank of this node; on the head also the way to all other ranks."""

from __future__ import annotations

import functools
import select
import socket
from typing import Any, Dict, List, Optional, Tuple

from vllm.config import VllmConfig
from vllm.distributed.channel import Channel, Message
from vllm.distributed.parallel_state import RankPlace
from vllm.logger import init_logger
from vllm.utils.network_utils import get_ip, listen
from vllm.utils.system_utils import Child, Closable, start_process
from vllm.v1.worker.worker import run_worker

logger = init_logger(__name__)

_HELLO_S = 5.0
_SHUTDOWN_S = 2.0


class WorkerDiedError(RuntimeError):
    """A rank is gone, or failed; the engine cannot go on."""


class MultiprocExecutor:
    """This node's workers. On the head: `execute_model` runs a batch on every rank."""

    def __init__(self, config: VllmConfig, close_in_workers: Tuple[Closable, ...] = ()) -> None:
        self.parallel = config.parallel_config
        self.workers: List[Child] = []
        self._engines_of: Dict[int, Channel] = {}
        self._is_head = self.parallel.node_rank == 0
        self._queue: Optional[socket.socket] = None
        self._host_ip = get_ip() if self.parallel.nnodes > 1 else "127.0.0.1"
        store = self._listen() if self._is_head and self.parallel.world_size > 1 else None
        for rank in self.parallel.local_ranks:
            self._start_worker(config, rank, store, close_in_workers)
        if store is not None:
            store.close()

    def _listen(self) -> socket.socket:
        """The head's sockets: the store at the master's address, and the queue for far workers."""
        parallel = self.parallel
        logger.info(
            "DP group leader: node_rank=%d, node_rank_within_dp=%d, master_addr=%s, "
            "mq_connect_ip=%s (local), world_size=%d, local_world_size=%d",
            parallel.node_rank,
            parallel.node_rank,
            parallel.master_addr,
            self._host_ip,
            parallel.world_size,
            parallel.local_world_size,
        )
        if parallel.nnodes == 1:
            return listen("127.0.0.1", 0)
        self._queue = listen(self._host_ip, 0)
        return listen(parallel.master_addr, parallel.master_port)

    def _start_worker(
        self,
        config: VllmConfig,
        rank: int,
        store: Optional[socket.socket],
        close: Tuple[Closable, ...],
    ) -> None:
        parallel = self.parallel
        master = (parallel.master_addr, parallel.master_port)
        place = RankPlace(
            rank=rank,
            local_rank=rank - parallel.local_ranks.start,
            world_size=parallel.world_size,
            host_ip=self._host_ip,
            master=master if store is None else store.getsockname(),
            timeout_s=parallel.timeout_s,
        )
        run = functools.partial(
            run_worker,
            config,
            place,
            store if rank == 0 else None,
            None if self._queue is None else self._queue.getsockname(),
        )
        name = "Worker" if parallel.world_size == 1 else f"Worker_TP{rank}"
        held: List[Optional[Closable]] = [self._queue, store if rank else None]
        held += [child.channel for child in self.workers]
        child = start_process(
            name, name, run, (*close, *(item for item in held if item is not None))
        )
        self.workers.append(child)
        self._engines_of[rank] = child.channel

    def wait_until_ready(self) -> None:
        """Return once every rank has loaded its shard; WorkerDiedError if one of ours fails.

        A far rank that never comes is waited for as long as rank 0 waits for it: for ever, unless
        --distributed-timeout-seconds was given.
        """
        near = [worker.channel for worker in self.workers]
        waiting: List[Any] = [*near, self._queue] if self._queue is not None else [*near]
        ready = 0
        while ready < self.parallel.world_size:
            for source in select.select(waiting, [], [])[0]:
                if isinstance(source, socket.socket):
                    waiting.append(Channel(source.accept()[0]))
                    continue
                if source not in near:
                    waiting.remove(source)
                ready += self._take_ready(source)
        if self._queue is not None:
            self._queue.close()

    def _take_ready(self, channel: Channel) -> bool:
        near = channel in [worker.channel for worker in self.workers]
        try:
            channel.set_timeout(_HELLO_S)
            message = channel.receive()
            channel.set_timeout(None)
            rank = int(message["rank"])
        except (OSError, KeyError, ValueError) as error:
            if near:
                raise self.worker_died(channel) from error
            logger.warning("Ignoring a connection to the message queue: %s", error)
            channel.close()
            return False
        self._engines_of[rank] = channel
        return True

    def execute_model(self, message: Message) -> List[int]:
        """Run a batch on every rank; rank 0's answer, one token per request."""
        request = {"method": "execute_model", **message}
        try:
            for channel in self._engines_of.values():
                channel.send(request)
            answer = self._engines_of[0].receive()
        except ConnectionError as error:
            raise WorkerDiedError(f"a worker is gone: {error}") from error
        if "error" in answer:
            raise WorkerDiedError(
                f"Worker failed with error '{answer['error']}', please check the stack trace above "
                "for the root cause"
            )
        return list(answer["tokens"])

    def worker_died(self, channel: Channel) -> WorkerDiedError:
        """What to raise for a worker's channel that became readable while it owes us nothing."""
        ranks = [
            rank
            for rank, worker in zip(self.parallel.local_ranks, self.workers)
            if worker.channel is channel
        ]
        name = f"VllmWorker-{ranks[0]}" if ranks else "of another node"
        return WorkerDiedError(f"Worker proc {name} died unexpectedly, shutting down executor.")

    def wait_for_workers(self) -> int:
        """Wait until a worker of this node ends; 0 if the engine told it to, else 1."""
        channels = [worker.channel for worker in self.workers]
        channel = select.select(channels, [], [])[0][0]
        worker = next(worker for worker in self.workers if worker.channel is channel)
        code = worker.wait(_SHUTDOWN_S)
        if code == 0:
            logger.info("The engine has shut down.")
            return 0
        logger.error("%s", self.worker_died(channel))
        return 1

    def shutdown(self, tell_far_workers: bool = True) -> None:
        """End this node's workers; on the head, tell those of other nodes too.

        A far worker that is told nothing ends with an error once it sees the connection close.
        """
        near = set(self.parallel.local_ranks)
        for rank, channel in self._engines_of.items():
            if self._is_head and (tell_far_workers or rank in near):
                _tell_to_shut_down(channel)
        for worker in self.workers:
            if not self._is_head or worker.wait(_SHUTDOWN_S) is None:
                worker.stop(_SHUTDOWN_S)


def _tell_to_shut_down(channel: Channel) -> None:
    try:
        channel.set_timeout(_SHUTDOWN_S)
        channel.send({"method": "shutdown"})
    except OSError as error:
        logger.info("A worker could not be told to shut down: %s", error)
