"""Configuration classes, imported when they are first asked for."""

from __future__ import annotations

import importlib
from typing import Any

_CLASS_TO_MODULE = {
    "TinyLlamaConfig": "vllm.transformers_utils.configs.tiny_llama",
}

__all__ = ["TinyLlamaConfig"]


def __getattr__(name: str) -> Any:
    if name in _CLASS_TO_MODULE:
        return getattr(importlib.import_module(_CLASS_TO_MODULE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
