"""Counters for /metrics, in Prometheus' text format."""

from __future__ import annotations

import threading
from typing import Dict, List

FINISH_REASONS = ("stop", "length", "abort")


class Metrics:
    """What was served so far; every method is safe to call from any thread."""

    def __init__(self, model_name: str) -> None:
        self._labels = f'engine="0",model_name="{model_name}"'
        self._lock = threading.Lock()
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._ended: Dict[str, int] = dict.fromkeys(FINISH_REASONS, 0)

    def count_tokens(self, prompt_tokens: int, generation_tokens: int) -> None:
        """So many tokens of a prompt were computed, and so many were generated."""
        with self._lock:
            self._prompt_tokens += prompt_tokens
            self._generation_tokens += generation_tokens

    def count_end(self, finish_reason: str) -> None:
        """A request came to its end."""
        with self._lock:
            self._ended[finish_reason] += 1

    def text(self, running: int, waiting: int) -> str:
        """The exposition of all counters."""
        with self._lock:
            lines = [
                *self._series("num_requests_running", "gauge", running),
                *self._series("num_requests_waiting", "gauge", waiting),
                *self._series("prompt_tokens_total", "counter", self._prompt_tokens),
                *self._series("generation_tokens_total", "counter", self._generation_tokens),
                "# TYPE vllm:request_success counter",
            ]
            for reason, count in self._ended.items():
                labels = f'{self._labels},finished_reason="{reason}"'
                lines.append(f"vllm:request_success_total{{{labels}}} {float(count)}")
        return "\n".join(lines) + "\n"

    def _series(self, name: str, kind: str, value: int) -> List[str]:
        plain = name[: -len("_total")] if kind == "counter" else name
        return [f"# TYPE vllm:{plain} {kind}", f"vllm:{name}{{{self._labels}}} {float(value)}"]
