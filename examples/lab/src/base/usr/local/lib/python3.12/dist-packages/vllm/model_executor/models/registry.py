"""Which class serves which architecture.

Each table maps an architecture, as a checkpoint's config.json names it, to a module of this
package and a class in it. Modules are imported only when their architecture is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict, KeysView, List, NoReturn, Sequence, Tuple

from vllm.logger import init_logger

logger = init_logger(__name__)

_TEXT_GENERATION_MODELS = {
    # [Decoder-only]
    "TinyLlamaForCausalLM": ("tiny_llama", "TinyLlamaForCausalLM"),
    "TinyMistralForCausalLM": ("tiny_llama", "TinyLlamaForCausalLM"),
    "TinySmolForCausalLM": ("tiny_llama", "TinyLlamaForCausalLM"),
}

_EMBEDDING_MODELS = {
    # [Text-only]
    "TinyLlamaModel": ("tiny_llama", "TinyLlamaModel"),
}

_MULTIMODAL_MODELS: Dict[str, Tuple[str, str]] = {}

_SPECULATIVE_DECODING_MODELS: Dict[str, Tuple[str, str]] = {}

_VLLM_MODELS = {
    **_TEXT_GENERATION_MODELS,
    **_EMBEDDING_MODELS,
    **_MULTIMODAL_MODELS,
    **_SPECULATIVE_DECODING_MODELS,
}


class _ModelRegistry:
    """The architectures that this vLLM can serve."""

    def __init__(self, models: Dict[str, Tuple[str, str]]) -> None:
        self.models = models

    def get_supported_archs(self) -> KeysView[str]:
        """The names of all architectures."""
        return self.models.keys()

    def resolve_model_cls(self, architectures: Sequence[str]) -> Tuple[Any, str]:
        """The class of the first architecture that is known, and that architecture.

        ValueError if none is known, or if its module cannot be imported.
        """
        if not architectures:
            raise ValueError("No model architectures are specified")
        for architecture in architectures:
            if architecture in self.models:
                return self._load(architecture), architecture
        return self._raise_for_unsupported(list(architectures))

    def _load(self, architecture: str) -> Any:
        module_name, class_name = self.models[architecture]
        try:
            module = importlib.import_module(f"vllm.model_executor.models.{module_name}")
            return getattr(module, class_name)
        except Exception as error:
            logger.exception("Error in loading model architecture '%s'", architecture)
            raise ValueError(
                f"Model architectures {[architecture]} failed to be inspected. "
                "Please check the logs for more details."
            ) from error

    def _raise_for_unsupported(self, architectures: List[str]) -> NoReturn:
        raise ValueError(
            f"Model architectures {architectures} are not supported for now. "
            f"Supported architectures: {self.get_supported_archs()}"
        )


ModelRegistry = _ModelRegistry(_VLLM_MODELS)
