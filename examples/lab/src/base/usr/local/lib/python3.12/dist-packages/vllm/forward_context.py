"""What layers need to know of the batch that runs: whose tokens, and the caches of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List


class LayerCache:
    """Keys and values of one sequence in one layer. `values[head]` has one list per feature."""

    def __init__(self, num_kv_heads: int, head_size: int) -> None:
        self.head_size = head_size
        self.keys: List[List[List[float]]] = [[] for _ in range(num_kv_heads)]
        self.values: List[List[List[float]]] = [
            [[] for _ in range(head_size)] for _ in range(num_kv_heads)
        ]

    def append(self, key: List[float], value: List[float]) -> None:
        """Add one token: its keys and values of all heads, in a row each."""
        for head, (keys, lines) in enumerate(zip(self.keys, self.values)):
            start = head * self.head_size
            keys.append(key[start : start + self.head_size])
            for line, number in zip(lines, value[start : start + self.head_size]):
                line.append(number)


class SequenceCache:
    """Keys and values of one sequence in all layers."""

    def __init__(self) -> None:
        self._layers: Dict[int, LayerCache] = {}

    def layer(self, layer: int, num_kv_heads: int, head_size: int) -> LayerCache:
        """The part of a layer; made when it is first asked for."""
        if layer not in self._layers:
            self._layers[layer] = LayerCache(num_kv_heads, head_size)
        return self._layers[layer]


@dataclass
class Sequence:
    """One request's share of the batch: its next `num_tokens` rows."""

    num_tokens: int
    cache: SequenceCache


@dataclass
class ForwardContext:
    """The batch, as sequences in the order of their rows."""

    sequences: List[Sequence]


_context = ForwardContext([])


def get_forward_context() -> ForwardContext:
    """The context of the batch that runs."""
    return _context


def set_forward_context(context: ForwardContext) -> None:
    """Say what the next batch consists of."""
    global _context
    _context = context
