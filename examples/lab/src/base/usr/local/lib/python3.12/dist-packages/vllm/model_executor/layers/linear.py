"""Linear layers whose weights are divided between the ranks."""

from __future__ import annotations

from math import fsum
from operator import mul
from typing import List

from vllm.distributed.communication_op import tensor_model_parallel_all_reduce
from vllm.distributed.parallel_state import (
    MAX_WORLD_SIZE,
    Rows,
    get_tensor_model_parallel_rank,
    get_tensor_model_parallel_world_size,
    pairwise_sum,
)
from vllm.model_executor.model_loader import Weights


def divide(numerator: int, denominator: int) -> int:
    """The quotient; ValueError if there is a remainder."""
    if numerator % denominator:
        raise ValueError(f"{numerator} is not divisible by {denominator}")
    return numerator // denominator


def multiply(rows: Rows, weight: Rows) -> Rows:
    """Each row times the transposed weight: one number per row of the weight."""
    return [[fsum(map(mul, line, row)) for line in weight] for row in rows]


class ColumnParallelLinear:
    """A linear layer divided by its outputs: each rank computes some of them, from all inputs."""

    def __init__(self, input_size: int, output_size: int, prefix: str) -> None:
        self.input_size = input_size
        self.output_size = output_size
        self.prefix = prefix
        self.size_per_rank = divide(output_size, get_tensor_model_parallel_world_size())
        self.first = get_tensor_model_parallel_rank() * self.size_per_rank
        self.weight: Rows = []

    def load_weights(self, weights: Weights) -> None:
        """Read this rank's rows of the weight."""
        whole = weights.get(f"{self.prefix}.weight", (self.output_size, self.input_size))
        self.weight = whole.rows(self.first, self.size_per_rank)

    def forward(self, rows: Rows) -> Rows:
        """This rank's outputs."""
        return multiply(rows, self.weight)


class KVParallelLinear(ColumnParallelLinear):
    """The projection to keys or values; where ranks are more than heads, some share a head."""

    def __init__(self, input_size: int, head_size: int, num_heads: int, prefix: str) -> None:
        world_size = get_tensor_model_parallel_world_size()
        sharing = max(1, world_size // num_heads)
        super().__init__(input_size, head_size * num_heads * sharing, prefix)
        self.output_size = head_size * num_heads
        self.first = get_tensor_model_parallel_rank() // sharing * self.size_per_rank
        self.num_heads_per_rank = self.size_per_rank // head_size


class RowParallelLinear:
    """A linear layer divided by its inputs: each rank has a part of every output, then all add.

    The parts are always the same four, added in the order of `pairwise_sum`.
    """

    def __init__(self, input_size: int, output_size: int, prefix: str) -> None:
        self.input_size = input_size
        self.output_size = output_size
        self.prefix = prefix
        self.part_size = divide(input_size, MAX_WORLD_SIZE)
        self.num_parts = divide(MAX_WORLD_SIZE, get_tensor_model_parallel_world_size())
        self.parts: List[Rows] = []

    def load_weights(self, weights: Weights) -> None:
        """Read this rank's columns of the weight."""
        whole = weights.get(f"{self.prefix}.weight", (self.output_size, self.input_size))
        first = get_tensor_model_parallel_rank() * self.num_parts
        self.parts = [
            whole.columns((first + number) * self.part_size, self.part_size)
            for number in range(self.num_parts)
        ]

    def forward(self, rows: Rows) -> Rows:
        """All outputs, summed over the ranks; `rows` hold this rank's inputs."""
        partial = []
        for number, weight in enumerate(self.parts):
            start = number * self.part_size
            partial.append(multiply([row[start : start + self.part_size] for row in rows], weight))
        ours = [pairwise_sum(parts) for parts in zip(*partial)]
        return tensor_model_parallel_all_reduce(ours)
