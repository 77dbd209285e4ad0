"""One rank: its shard of the model, and the loop that runs what the engine sends."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from vllm.config import VllmConfig
from vllm.distributed.channel import Channel, Message, PeerClosedError
from vllm.distributed.parallel_state import RankPlace, init_distributed_environment
from vllm.distributed.rendezvous import Address
from vllm.forward_context import ForwardContext, Sequence, SequenceCache, set_forward_context
from vllm.logger import init_logger
from vllm.model_executor.model_loader import Weights
from vllm.model_executor.models import ModelRegistry
from vllm.utils.network_utils import check_interface, connect
from vllm.v1.sample.sampler import Sampling, sample

logger = init_logger(__name__)


class Worker:
    """The model of one rank, and the caches of the requests that run."""

    def __init__(self, config: VllmConfig, rank: int) -> None:
        self.rank = rank
        self.max_model_len = config.model_config.max_model_len
        self._caches: Dict[str, SequenceCache] = {}
        folder = config.model_config.model
        logger.info("Starting to load model %s...", folder)
        start = time.perf_counter()
        model_class, _ = ModelRegistry.resolve_model_cls(config.model_config.architectures)
        self.model: Any = model_class(vllm_config=config)
        weights = Weights(Path(folder) / "model.safetensors")
        self.model.load_weights(weights)
        weights.check_all_used()
        logger.info("Loading weights took %.2f seconds", time.perf_counter() - start)

    def execute_model(self, requests: List[Message], finished: List[str]) -> List[int]:
        """The next token of each request.

        A request gives its id, the `tokens` that are new to the caches, and where they `start`.
        Every rank takes part; what they return is the same, and the engine only uses rank 0's.
        """
        for request_id in finished:
            self._caches.pop(request_id, None)
        sequences: List[Sequence] = []
        tokens: List[int] = []
        positions: List[int] = []
        for request in requests:
            cache = self._caches.setdefault(request["id"], SequenceCache())
            sequences.append(Sequence(len(request["tokens"]), cache))
            tokens.extend(request["tokens"])
            positions.extend(range(request["start"], request["start"] + len(request["tokens"])))
        self._check_length(max(positions))
        set_forward_context(ForwardContext(sequences))
        rows = self.model.forward(tokens, positions)
        last, end = [], 0
        for sequence in sequences:
            end += sequence.num_tokens
            last.append(rows[end - 1])
        return [
            sample(logits, Sampling(request["temperature"], request["seed"]), request["step"])
            for logits, request in zip(self.model.compute_logits(last), requests)
        ]

    def _check_length(self, position: int) -> None:
        """Complain, and go on, when another node allows longer texts than this one.

        vLLM behaves like this: the head answers 200 while another rank logs an error every step.
        """
        if position >= self.max_model_len:
            logger.error(
                "AssertionError: position %d is not below this rank's max_model_len %d",
                position,
                self.max_model_len,
            )


def run_worker(
    config: VllmConfig,
    place: RankPlace,
    store: Optional[socket.socket],
    message_queue: Optional[Address],
    parent: Channel,
) -> int:
    """Be one rank until the engine says otherwise; the exit code.

    On the head's node the engine is the parent process; elsewhere it is reached over the fabric.
    """
    try:
        check_interface()
        queue = init_distributed_environment(place, store, message_queue)
        engine = parent
        if config.parallel_config.node_rank > 0:
            assert queue is not None
            engine = Channel(connect(*queue, place.host_ip))
        worker = Worker(config, place.rank)
        engine.send({"rank": place.rank, "status": "READY"})
    except Exception:
        logger.exception("WorkerProc failed to start.")
        return 1
    return _busy_loop(worker, engine)


def _busy_loop(worker: Worker, engine: Channel) -> int:
    while True:
        try:
            message = engine.receive()
        except ConnectionError as error:
            logger.error("The engine is gone: %s", error)
            return 1
        if message["method"] == "shutdown":
            return 0
        try:
            tokens = worker.execute_model(message["requests"], message["finished"])
        except Exception as error:
            logger.exception("WorkerProc hit an exception.")
            if isinstance(error, PeerClosedError):
                logger.error("Another rank is gone.")
            if worker.rank == 0:
                engine.send({"error": f"{type(error).__name__}: {error}"})
            return 1
        if worker.rank == 0:
            engine.send({"tokens": tokens})
