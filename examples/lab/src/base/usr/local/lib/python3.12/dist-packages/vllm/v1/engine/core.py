"""The engine core: a process of its own that batches requests and runs them on all ranks."""

from __future__ import annotations

import random
import select
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Deque, Dict, FrozenSet, List, Optional

from vllm.config import VllmConfig
from vllm.distributed.channel import Channel, Message, PeerClosedError
from vllm.logger import init_logger
from vllm.transformers_utils.config import get_eos_token_ids
from vllm.utils.system_utils import leave_on_sigterm
from vllm.v1.executor.multiproc_executor import MultiprocExecutor
from vllm.version import __version__

logger = init_logger(__name__)


@dataclass
class Request:
    """A request as it runs. `computed` tokens of prompt and answer are in the ranks' caches."""

    request_id: str
    tokens: List[int]
    max_tokens: int
    temperature: float
    seed: int
    ignore_eos: bool
    computed: int = 0
    answer: List[int] = field(default_factory=list)

    def next_work(self) -> Message:
        """What every rank has to compute: all tokens that are not in the caches yet."""
        return {
            "id": self.request_id,
            "tokens": (self.tokens + self.answer)[self.computed :],
            "start": self.computed,
            "temperature": self.temperature,
            "seed": self.seed,
            "step": len(self.answer),
        }


class EngineCore:
    """Requests that wait, requests that run, and the step that gives each of them one token."""

    def __init__(self, config: VllmConfig, executor: MultiprocExecutor) -> None:
        model_config = config.model_config
        self.executor = executor
        self.max_num_seqs = config.max_num_seqs
        self._eos: FrozenSet[int] = get_eos_token_ids(model_config.model, model_config.hf_config)
        self._seeds = random.Random(model_config.seed)
        self._waiting: Deque[Request] = deque()
        self._running: Dict[str, Request] = {}
        self._finished: List[str] = []

    def has_work(self) -> bool:
        """Whether any request waits or runs."""
        return bool(self._waiting or self._running)

    def add(self, message: Message) -> None:
        """Take a new request."""
        seed = message["seed"]
        self._waiting.append(
            Request(
                message["id"],
                message["tokens"],
                message["max_tokens"],
                message["temperature"],
                self._seeds.getrandbits(32) if seed is None else seed,
                message["ignore_eos"],
            )
        )

    def abort(self, request_id: str) -> None:
        """Drop a request that nobody wants any more."""
        self._waiting = deque(item for item in self._waiting if item.request_id != request_id)
        if self._running.pop(request_id, None):
            self._finished.append(request_id)

    def step(self) -> List[Message]:
        """One more token for each running request, as messages for the HTTP server."""
        while self._waiting and len(self._running) < self.max_num_seqs:
            request = self._waiting.popleft()
            self._running[request.request_id] = request
        batch = list(self._running.values())
        finished, self._finished = self._finished, []
        work = [request.next_work() for request in batch]
        tokens = self.executor.execute_model({"requests": work, "finished": finished})
        return [self._take(request, token) for request, token in zip(batch, tokens)]

    def _take(self, request: Request, token: int) -> Message:
        request.computed = len(request.tokens) + len(request.answer)
        request.answer.append(token)
        reason: Optional[str] = None
        if token in self._eos and not request.ignore_eos:
            reason = "stop"
        elif len(request.answer) >= request.max_tokens:
            reason = "length"
        if reason:
            del self._running[request.request_id]
            self._finished.append(request.request_id)
        return {"id": request.request_id, "token": token, "finish_reason": reason}


def run_engine_core(config: VllmConfig, api: Channel) -> int:
    """Be the engine core until a signal or a failure ends it; the exit code."""
    leave_on_sigterm()
    logger.info(
        "Initializing a V1 LLM engine (v%s) with config: model='%s', max_seq_len=%d, "
        "tensor_parallel_size=%d, seed=%d",
        __version__,
        config.model_config.model,
        config.model_config.max_model_len,
        config.parallel_config.tensor_parallel_size,
        config.model_config.seed,
    )
    executor: Optional[MultiprocExecutor] = None
    clean = False
    try:
        executor = MultiprocExecutor(config, close_in_workers=(api,))
        executor.wait_until_ready()
        core = EngineCore(config, executor)
        api.send({"status": "READY"})
        _run_busy_loop(core, api)
    except (SystemExit, PeerClosedError):  # a signal, or the HTTP server is gone
        clean = True
    except Exception:
        logger.exception("EngineCore encountered a fatal error.")
    finally:
        if executor is not None:
            executor.shutdown(tell_far_workers=clean)
    return 0 if clean else 1


def _run_busy_loop(core: EngineCore, api: Channel) -> None:
    workers = [worker.channel for worker in core.executor.workers]
    while True:
        readable: List[Any] = select.select([api, *workers], [], [], _patience(core))[0]
        if api in readable:
            message = api.receive()
            if message["method"] == "add":
                core.add(message)
            else:
                core.abort(message["id"])
            continue  # take all that came before the next step
        for worker in readable:
            raise core.executor.worker_died(worker)
        api.send({"outputs": core.step()})


def _patience(core: EngineCore) -> Optional[float]:
    """How long to wait for messages: for ever when idle, not at all when there is work."""
    return 0 if core.has_work() else None
