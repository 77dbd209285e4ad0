"""Normalisation."""

from __future__ import annotations

from math import fsum, sqrt
from operator import mul
from typing import List

from vllm.distributed.parallel_state import Rows
from vllm.model_executor.model_loader import Weights


class RMSNorm:
    """Divide a row by the root of the mean of its squares, then scale each feature.

    Not divided between the ranks: each of them has the whole row and computes the same.
    """

    def __init__(self, size: int, eps: float, prefix: str) -> None:
        self.size = size
        self.eps = eps
        self.prefix = prefix
        self.weight: List[float] = []

    def load_weights(self, weights: Weights) -> None:
        """Read the scales."""
        self.weight = weights.get(f"{self.prefix}.weight", (self.size,)).vector()

    def forward(self, rows: Rows) -> Rows:
        """The normalised rows; a row of several heads of `size` features is normalised by head."""
        return [
            [
                value
                for start in range(0, len(row), self.size)
                for value in self._normalise(row[start : start + self.size])
            ]
            for row in rows
        ]

    def _normalise(self, row: List[float]) -> List[float]:
        scale = 1.0 / sqrt(fsum(map(mul, row, row)) / self.size + self.eps)
        return [value * scale * weight for value, weight in zip(row, self.weight)]
