"""A small decoder in the manner of Llama: attention, then a gated MLP, each after a norm."""

from __future__ import annotations

from typing import List, Sequence

from vllm.config import VllmConfig
from vllm.distributed.parallel_state import Rows, get_tensor_model_parallel_world_size
from vllm.model_executor.layers.activation import silu_and_mul
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import (
    ColumnParallelLinear,
    KVParallelLinear,
    RowParallelLinear,
    divide,
)
from vllm.model_executor.layers.rotary import RotaryEmbedding
from vllm.model_executor.layers.vocab import ParallelLMHead, VocabParallelEmbedding
from vllm.model_executor.model_loader import Weights
from vllm.transformers_utils.configs.tiny_llama import TinyLlamaConfig


def add_rows(rows: Rows, others: Rows) -> Rows:
    """The sum of two lists of rows, feature by feature."""
    return [[a + b for a, b in zip(row, other)] for row, other in zip(rows, others)]


class TinyLlamaMLP:
    """The gated MLP: two projections to the middle, one back."""

    def __init__(self, config: TinyLlamaConfig, prefix: str) -> None:
        hidden, middle = config.hidden_size, config.intermediate_size
        self.gate_proj = ColumnParallelLinear(hidden, middle, f"{prefix}.gate_proj")
        self.up_proj = ColumnParallelLinear(hidden, middle, f"{prefix}.up_proj")
        self.down_proj = RowParallelLinear(middle, hidden, f"{prefix}.down_proj")

    def load_weights(self, weights: Weights) -> None:
        """Load this rank's shard."""
        for layer in (self.gate_proj, self.up_proj, self.down_proj):
            layer.load_weights(weights)

    def forward(self, rows: Rows) -> Rows:
        """The block's output, summed over the ranks."""
        middle = silu_and_mul(self.gate_proj.forward(rows), self.up_proj.forward(rows))
        return self.down_proj.forward(middle)


class TinyLlamaAttention:
    """Attention with rotary positions; each rank has some of the heads."""

    def __init__(self, config: TinyLlamaConfig, layer: int, prefix: str) -> None:
        hidden, size = config.hidden_size, config.head_dim
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.q_proj = ColumnParallelLinear(hidden, heads * size, f"{prefix}.q_proj")
        self.k_proj = KVParallelLinear(hidden, size, kv_heads, f"{prefix}.k_proj")
        self.v_proj = KVParallelLinear(hidden, size, kv_heads, f"{prefix}.v_proj")
        self.o_proj = RowParallelLinear(heads * size, hidden, f"{prefix}.o_proj")
        self.rotary_emb = RotaryEmbedding(size, config.rope_theta)
        heads_per_rank = divide(heads, get_tensor_model_parallel_world_size())
        self.attn = Attention(heads_per_rank, self.k_proj.num_heads_per_rank, size, layer)

    def load_weights(self, weights: Weights) -> None:
        """Load this rank's shard."""
        for layer in (self.q_proj, self.k_proj, self.v_proj, self.o_proj):
            layer.load_weights(weights)

    def prepare_query(self, rows: Rows) -> Rows:
        """The queries as they are before their rotation; here nothing happens to them."""
        return rows

    def prepare_key(self, rows: Rows) -> Rows:
        """The keys as they are before their rotation; here nothing happens to them."""
        return rows

    def forward(self, positions: Sequence[int], rows: Rows) -> Rows:
        """The block's output, summed over the ranks."""
        query = self.rotary_emb.forward(positions, self.prepare_query(self.q_proj.forward(rows)))
        key = self.rotary_emb.forward(positions, self.prepare_key(self.k_proj.forward(rows)))
        return self.o_proj.forward(self.attn.forward(query, key, self.v_proj.forward(rows)))


class TinyLlamaDecoderLayer:
    """One layer: two blocks, each added to what it was given."""

    def __init__(self, config: TinyLlamaConfig, layer: int, prefix: str) -> None:
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = TinyLlamaAttention(config, layer, f"{prefix}.self_attn")
        self.mlp = TinyLlamaMLP(config, f"{prefix}.mlp")
        self.input_layernorm = RMSNorm(hidden, eps, f"{prefix}.input_layernorm")
        self.post_attention_layernorm = RMSNorm(hidden, eps, f"{prefix}.post_attention_layernorm")

    def load_weights(self, weights: Weights) -> None:
        """Load this rank's shard."""
        for part in (self.self_attn, self.mlp, self.input_layernorm, self.post_attention_layernorm):
            part.load_weights(weights)

    def forward(self, positions: Sequence[int], rows: Rows) -> Rows:
        """The rows after this layer."""
        rows = add_rows(rows, self.self_attn.forward(positions, self.input_layernorm.forward(rows)))
        return add_rows(rows, self.mlp.forward(self.post_attention_layernorm.forward(rows)))


class TinyLlamaModel:
    """Embedding, layers and last norm."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "model") -> None:
        config = TinyLlamaConfig.from_dict(vllm_config.model_config.hf_config)
        self.embed_tokens = VocabParallelEmbedding(
            config.vocab_size, config.hidden_size, f"{prefix}.embed_tokens"
        )
        self.layers: List[TinyLlamaDecoderLayer] = [
            TinyLlamaDecoderLayer(config, layer, f"{prefix}.layers.{layer}")
            for layer in range(config.num_hidden_layers)
        ]
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, f"{prefix}.norm")

    def load_weights(self, weights: Weights) -> None:
        """Load this rank's shard."""
        self.embed_tokens.load_weights(weights)
        for layer in self.layers:
            layer.load_weights(weights)
        self.norm.load_weights(weights)

    def forward(self, input_ids: Sequence[int], positions: Sequence[int]) -> Rows:
        """One row per token, before the logits."""
        rows = self.embed_tokens.forward(input_ids)
        for layer in self.layers:
            rows = layer.forward(positions, rows)
        return self.norm.forward(rows)


class TinyLlamaForCausalLM:
    """The model with a head that predicts the next token."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        config = TinyLlamaConfig.from_dict(vllm_config.model_config.hf_config)
        self.model = TinyLlamaModel(vllm_config=vllm_config)
        self.lm_head = ParallelLMHead(config.vocab_size, config.hidden_size, f"{prefix}lm_head")

    def load_weights(self, weights: Weights) -> None:
        """Load this rank's shard."""
        self.model.load_weights(weights)
        self.lm_head.load_weights(weights)

    def forward(self, input_ids: Sequence[int], positions: Sequence[int]) -> Rows:
        """One row per token, before the logits."""
        return self.model.forward(input_ids, positions)

    def compute_logits(self, rows: Rows) -> Rows:
        """One row of logits over the vocabulary for each row."""
        return self.lm_head.forward(rows)
