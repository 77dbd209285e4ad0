"""Rotary position embedding."""

from __future__ import annotations

from math import cos, sin
from typing import Dict, List, Sequence, Tuple

from vllm.distributed.parallel_state import Rows


class RotaryEmbedding:
    """Turn each pair of features (i, i + half) of a head by an angle that grows with position."""

    def __init__(self, head_size: int, theta: float) -> None:
        self.head_size = head_size
        self.half = head_size // 2
        self.frequencies = [theta ** (-2.0 * pair / head_size) for pair in range(self.half)]
        self._turns: Dict[int, List[Tuple[float, float]]] = {}

    def forward(self, positions: Sequence[int], rows: Rows) -> Rows:
        """The rows with every head turned by its position's angles."""
        return [self._turn_row(position, row) for position, row in zip(positions, rows)]

    def _turn_row(self, position: int, row: List[float]) -> List[float]:
        turns = self._turns.get(position)
        if turns is None:
            angles = [position * frequency for frequency in self.frequencies]
            turns = self._turns[position] = [(cos(angle), sin(angle)) for angle in angles]
        turned = list(row)
        for start in range(0, len(row), self.head_size):
            for low, (cosine, sine) in enumerate(turns, start):
                high = low + self.half
                turned[low] = row[low] * cosine - row[high] * sine
                turned[high] = row[high] * cosine + row[low] * sine
        return turned
