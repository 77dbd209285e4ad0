"""The engine's configuration: what a command line and a model's folder amount to."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional

from vllm.distributed.parallel_state import MAX_WORLD_SIZE
from vllm.model_executor.models.registry import ModelRegistry
from vllm.transformers_utils.config import get_config
from vllm.version import __version__


@dataclass(frozen=True)
class ModelConfig:
    """The model: `model` is its folder, `hf_config` its config.json."""

    model: str
    served_model_names: List[str]
    hf_config: Dict[str, Any]
    max_model_len: int
    seed: int
    chat_template: Optional[str]

    @property
    def architectures(self) -> List[str]:
        """The architectures that config.json names."""
        return list(self.hf_config.get("architectures") or [])

    def verify(self, world_size: int) -> None:
        """ValueError if this vLLM cannot serve the model, or not with so many ranks."""
        model_class, architecture = ModelRegistry.resolve_model_cls(self.architectures)
        if not hasattr(model_class, "compute_logits"):
            raise ValueError(f"{architecture} is no model that generates text")
        limit = int(self.hf_config.get("max_position_embeddings", self.max_model_len))
        if not 0 < self.max_model_len <= limit:
            raise ValueError(
                f"User-specified max_model_len ({self.max_model_len}) is greater than the derived "
                f"max_model_len (max_position_embeddings={limit} in model's config.json)."
            )
        heads = int(self.hf_config.get("num_attention_heads", 0))
        if heads % world_size:
            raise ValueError(
                f"Total number of attention heads ({heads}) must be divisible by tensor parallel "
                f"size ({world_size})."
            )


@dataclass(frozen=True)
class ParallelConfig:
    """The ranks, and which of them run here."""

    tensor_parallel_size: int
    nnodes: int
    node_rank: int
    master_addr: str
    master_port: int
    timeout_s: Optional[float]

    @property
    def world_size(self) -> int:
        """All ranks."""
        return self.tensor_parallel_size

    @property
    def local_world_size(self) -> int:
        """The ranks of one node."""
        return self.world_size // self.nnodes

    @property
    def local_ranks(self) -> range:
        """The ranks that run on this node."""
        first = self.node_rank * self.local_world_size
        return range(first, first + self.local_world_size)

    def verify(self) -> None:
        """ValueError if the numbers do not fit together."""
        if self.world_size not in (1, 2, MAX_WORLD_SIZE):
            raise ValueError(
                f"the stand-in runs with 1, 2 or {MAX_WORLD_SIZE} ranks, not {self.world_size}"
            )
        if self.nnodes < 1 or self.world_size % self.nnodes:
            raise ValueError(
                f"World size ({self.world_size}) must be divisible by nnodes ({self.nnodes})."
            )
        if not 0 <= self.node_rank < self.nnodes:
            raise ValueError(
                f"--node-rank must be between 0 and {self.nnodes - 1}; "
                f"got --node-rank {self.node_rank}."
            )


@dataclass(frozen=True)
class VllmConfig:
    """Everything that the processes of one node need to know."""

    model_config: ModelConfig
    parallel_config: ParallelConfig
    max_num_seqs: int

    def verify(self) -> None:
        """ValueError if this cannot run."""
        self.parallel_config.verify()
        self.model_config.verify(self.parallel_config.world_size)
        if self.max_num_seqs < 1:
            raise ValueError("max_num_seqs must be at least 1")

    def system_fingerprint(self) -> str:
        """`vllm-VERSION-tpN-HASH8`; the hash is of this configuration without addresses and nodes.

        It says nothing of the weights, as vLLM's does not.
        """
        size = self.parallel_config.tensor_parallel_size
        facts = {"model": asdict(self.model_config), "tp": size, "max_num_seqs": self.max_num_seqs}
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        return f"vllm-{__version__}-tp{size}-{digest[:8]}"


def load_model_config(
    model: str,
    served_model_names: List[str],
    max_model_len: Optional[int],
    seed: int,
    chat_template: Optional[str],
) -> ModelConfig:
    """The configuration of a model's folder; ValueError if there is no usable config.json."""
    hf_config = get_config(model)
    length = max_model_len or int(hf_config.get("max_position_embeddings", 2048))
    return ModelConfig(model, served_model_names or [model], hf_config, length, seed, chat_template)
