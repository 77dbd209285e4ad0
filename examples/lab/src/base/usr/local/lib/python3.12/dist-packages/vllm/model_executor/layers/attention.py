"""Causal attention over a cache of keys and values."""

from __future__ import annotations

from math import exp, fsum, sqrt
from operator import mul
from typing import List

from vllm.distributed.parallel_state import Rows
from vllm.forward_context import LayerCache, get_forward_context


class Attention:
    """Attention of this rank's heads; several query heads may share a head of keys and values."""

    def __init__(self, num_heads: int, num_kv_heads: int, head_size: int, layer: int) -> None:
        self.head_size = head_size
        self.layer = layer
        self.num_kv_heads = num_kv_heads
        self.kv_head_of = [head * num_kv_heads // num_heads for head in range(num_heads)]
        self.scale = 1.0 / sqrt(head_size)

    def forward(self, query: Rows, key: Rows, value: Rows) -> Rows:
        """One row per token; each sees its own sequence up to and with itself."""
        output: Rows = []
        for sequence in get_forward_context().sequences:
            cache = sequence.cache.layer(self.layer, self.num_kv_heads, self.head_size)
            for _ in range(sequence.num_tokens):
                row = len(output)
                cache.append(key[row], value[row])
                output.append(self._attend(query[row], cache))
        return output

    def _attend(self, query: List[float], cache: LayerCache) -> List[float]:
        output: List[float] = []
        for head, kv_head in enumerate(self.kv_head_of):
            part = query[head * self.head_size : (head + 1) * self.head_size]
            scores = [fsum(map(mul, part, key)) * self.scale for key in cache.keys[kv_head]]
            highest = max(scores)
            weights = [exp(score - highest) for score in scores]
            total = fsum(weights)
            output.extend(fsum(map(mul, weights, line)) / total for line in cache.values[kv_head])
        return output
