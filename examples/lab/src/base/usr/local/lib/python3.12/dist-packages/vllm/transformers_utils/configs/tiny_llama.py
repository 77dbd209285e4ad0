"""The sizes of a TinyLlama."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Dict, Type, TypeVar

Config = TypeVar("Config", bound="TinyLlamaConfig")


@dataclass(frozen=True)
class TinyLlamaConfig:
    """What config.json says of a model; keys that are no fields here are left to others."""

    model_type = "tiny_llama"

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0

    @classmethod
    def from_dict(cls: Type[Config], values: Dict[str, Any]) -> Config:
        """The configuration in a config.json; ValueError if a size is missing."""
        names = [field.name for field in fields(cls)]
        try:
            return cls(**{name: values[name] for name in names if name in values})
        except TypeError as error:
            raise ValueError(f"config.json: {error}") from error
