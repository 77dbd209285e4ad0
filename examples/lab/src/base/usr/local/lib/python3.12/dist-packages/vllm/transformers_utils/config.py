"""Reading a model's config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict


def get_config(model: str) -> Dict[str, Any]:
    """The config.json of a model's folder; ValueError if there is none or it is no JSON object.

    Only local folders: the stand-in never fetches anything.
    """
    path = Path(model) / "config.json"
    try:
        config = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(
            f"Invalid repository ID or local directory specified: '{model}'. "
            f"It must be a folder with a config.json ({error.strerror})."
        ) from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path}: not a JSON object")
    return config


def get_eos_token_ids(model: str, config: Dict[str, Any]) -> frozenset[int]:
    """The tokens that end a text: generation_config.json's, else config.json's."""
    path = Path(model) / "generation_config.json"
    generation = json.loads(path.read_text()) if path.is_file() else {}
    found = generation.get("eos_token_id", config.get("eos_token_id", []))
    return frozenset(found if isinstance(found, list) else [found])
