"""The HTTP server's side of the engine: requests go in, tokens come back."""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import uuid
from typing import Dict, Iterator, List, Optional, Tuple

from vllm.config import VllmConfig
from vllm.distributed.channel import Channel, Message
from vllm.logger import init_logger
from vllm.utils.system_utils import Closable, start_process
from vllm.v1.engine.core import run_engine_core

logger = init_logger(__name__)

_STOP_S = 8.0

Output = Tuple[int, Optional[str]]
"""A token, and why it is the last one."""


class EngineDeadError(RuntimeError):
    """The engine is gone: no request can be answered any more."""

    def __init__(self) -> None:
        super().__init__(
            "EngineCore encountered an issue. See stack trace (above) for the root cause."
        )


class AsyncLLM:
    """The engine core's process, and the requests that are under way."""

    def __init__(self, config: VllmConfig, close_in_engine: Tuple[Closable, ...] = ()) -> None:
        run = functools.partial(run_engine_core, config)
        self._process = start_process("EngineCore", "EngineCore_DP0", run, close_in_engine)
        self._channel: Channel = self._process.channel
        self._send_lock = threading.Lock()
        self._streams: Dict[str, queue.SimpleQueue[Optional[Output]]] = {}
        self._closing = False
        self.died = threading.Event()

    def wait_until_ready(self) -> None:
        """Return once all ranks are up; EngineDeadError if that fails. Then threads may start."""
        try:
            self._channel.receive()
        except ConnectionError as error:
            raise EngineDeadError from error
        threading.Thread(target=self._read_outputs, name="engine outputs", daemon=True).start()

    @property
    def num_requests(self) -> int:
        """How many requests are under way."""
        return len(self._streams)

    def generate(
        self,
        tokens: List[int],
        *,
        max_tokens: int,
        temperature: float,
        seed: Optional[int],
        ignore_eos: bool,
    ) -> Iterator[Output]:
        """Start a request; its tokens as they come. EngineDeadError when the engine dies.

        Closing the iterator early drops the request.
        """
        request_id = uuid.uuid4().hex
        stream: queue.SimpleQueue[Optional[Output]] = queue.SimpleQueue()
        self._streams[request_id] = stream
        if self.died.is_set():  # only now: the reader may have swept the streams before
            stream.put(None)
        self._send(
            {
                "method": "add",
                "id": request_id,
                "tokens": tokens,
                "max_tokens": max_tokens,
                "temperature": temperature,
                "seed": seed,
                "ignore_eos": ignore_eos,
            }
        )
        return self._outputs(request_id, stream)

    def _outputs(
        self, request_id: str, stream: queue.SimpleQueue[Optional[Output]]
    ) -> Iterator[Output]:
        ended = False
        try:
            while not ended:
                output = stream.get()
                if output is None:
                    ended = True
                    raise EngineDeadError
                ended = output[1] is not None
                yield output
        finally:
            self._streams.pop(request_id, None)
            if not ended:
                self._send({"method": "abort", "id": request_id})

    def _send(self, message: Message) -> None:
        with self._send_lock, contextlib.suppress(ConnectionError):  # the reading thread sees it
            self._channel.send(message)

    def _read_outputs(self) -> None:
        while True:
            try:
                message = self._channel.receive()
            except (OSError, ValueError):
                break
            for output in message["outputs"]:
                stream = self._streams.get(output["id"])
                if stream is not None:
                    stream.put((output["token"], output["finish_reason"]))
        if not self._closing:
            logger.error("Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.")
        self.died.set()
        for stream in list(self._streams.values()):
            stream.put(None)

    def shutdown(self) -> None:
        """End the engine core and, through it, all workers."""
        self._closing = True
        self._process.stop(_STOP_S)
