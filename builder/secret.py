"""A value that nothing may show: it compares, and prints as nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

API_KEY: Final = "VLLM_API_KEY"
"""The variable from which vLLM reads the key that requests to /v1 must bring."""


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A secret text; only `value` gives it out, to whoever has to send it."""

    value: str

    def __repr__(self) -> str:
        """What reports, logs and tracebacks see of it."""
        return "Secret(not shown)"
