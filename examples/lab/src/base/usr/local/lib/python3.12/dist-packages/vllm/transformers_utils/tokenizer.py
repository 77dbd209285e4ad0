"""A tokenizer of bytes: token N is byte N, and special tokens stand above 255."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Dict, List, Optional

_BYTES = 256


class ByteTokenizer:
    """Text to tokens and back, by a model's tokenizer_config.json."""

    def __init__(self, special: Dict[str, int], bos: Optional[str]) -> None:
        self._special = special
        self._bos = bos
        names = sorted(special, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, names)) + ")") if names else None

    @classmethod
    def from_pretrained(cls, model: str) -> ByteTokenizer:
        """The tokenizer of a model's folder; ValueError if it is none of bytes."""
        path = Path(model) / "tokenizer_config.json"
        try:
            config = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
        if config.get("tokenizer_class") != cls.__name__:
            raise ValueError(f"{path}: the stand-in only has the tokenizer class {cls.__name__}")
        added = config.get("added_tokens_decoder", {})
        special = {token["content"]: int(number) for number, token in added.items()}
        return cls(special, config.get("bos_token") if config.get("add_bos_token") else None)

    def encode(self, text: str, add_special_tokens: bool = True) -> List[int]:
        """The tokens of a text; special tokens are recognised by their names in it."""
        tokens = [self._special[self._bos]] if self._bos and add_special_tokens else []
        for part in self._split.split(text) if self._split else [text]:
            if part in self._special:
                tokens.append(self._special[part])
            else:
                tokens.extend(part.encode("utf-8", "replace"))
        return tokens

    @staticmethod
    def to_bytes(token: int) -> bytes:
        """The byte of a token; nothing for a special one."""
        return bytes([token]) if token < _BYTES else b""
