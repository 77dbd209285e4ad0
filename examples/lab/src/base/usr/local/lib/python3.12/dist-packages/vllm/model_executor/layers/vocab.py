"""The two ends of a model: from token ids to rows, and from rows to logits."""

from __future__ import annotations

from typing import Sequence

from vllm.distributed.communication_op import (
    tensor_model_parallel_all_gather,
    tensor_model_parallel_all_reduce,
)
from vllm.distributed.parallel_state import Rows
from vllm.model_executor.layers.linear import ColumnParallelLinear
from vllm.model_executor.model_loader import Weights


class VocabParallelEmbedding:
    """Each rank holds the rows of some tokens; the others' rows are zeros, then all add."""

    def __init__(self, num_embeddings: int, embedding_dim: int, prefix: str) -> None:
        self.shard = ColumnParallelLinear(embedding_dim, num_embeddings, prefix)

    def load_weights(self, weights: Weights) -> None:
        """Read this rank's part of the vocabulary."""
        self.shard.load_weights(weights)

    def forward(self, token_ids: Sequence[int]) -> Rows:
        """The embedding of each token."""
        first, size = self.shard.first, self.shard.size_per_rank
        zeros = [0.0] * self.shard.input_size
        ours = [
            self.shard.weight[token - first] if first <= token < first + size else zeros
            for token in token_ids
        ]
        return tensor_model_parallel_all_reduce(ours)


class ParallelLMHead:
    """Each rank computes the logits of some tokens; then every rank gets all of them."""

    def __init__(self, num_embeddings: int, embedding_dim: int, prefix: str) -> None:
        self.shard = ColumnParallelLinear(embedding_dim, num_embeddings, prefix)

    def load_weights(self, weights: Weights) -> None:
        """Read this rank's part of the vocabulary."""
        self.shard.load_weights(weights)

    def tie_weights(self, embedding: VocabParallelEmbedding) -> None:
        """Use the embedding's weights instead of loading our own."""
        self.shard = embedding.shard

    def forward(self, rows: Rows) -> Rows:
        """One row of logits over the whole vocabulary for each row."""
        return tensor_model_parallel_all_gather(self.shard.forward(rows))
