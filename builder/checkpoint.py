"""What a checkpoint's config.json says of it."""

from __future__ import annotations

import json

from builder.pipeline_errors import CheckpointConfigError


def checkpoint_in(data: bytes, place: str) -> tuple[tuple[str, ...], str]:
    """The architectures and the model type in the bytes of a config.json.

    No model type if there is none, or if the checkpoint brings its own configuration class. Raises
    CheckpointConfigError, which names `place`.
    """
    try:
        document = json.loads(data)
        found = document["architectures"]
        brings_own = "AutoConfig" in document.get("auto_map", {})
        model_type = document.get("model_type", "")
    except (ValueError, LookupError, TypeError, RecursionError, AttributeError) as error:
        raise CheckpointConfigError(place, f"{type(error).__name__}: {error}") from error
    if not (isinstance(found, list) and found and all(isinstance(item, str) for item in found)):
        raise CheckpointConfigError(place, f"architectures = {found!r}")
    if not isinstance(model_type, str):
        raise CheckpointConfigError(place, f"model_type = {model_type!r}")
    return tuple(found), "" if brings_own else model_type
