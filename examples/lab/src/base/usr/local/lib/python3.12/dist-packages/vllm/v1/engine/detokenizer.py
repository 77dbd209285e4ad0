"""From tokens to text, one token at a time."""

from __future__ import annotations

import codecs
from typing import Sequence

from vllm.transformers_utils.tokenizer import ByteTokenizer


class IncrementalDetokenizer:
    """The text of an answer as it grows; it ends before the first stop string."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.text = ""
        self._stop = stop
        self._sent = 0
        self._held_back = max((len(text) - 1 for text in stop), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int, last: bool) -> bool:
        """Take the next token; True when it completes a stop string."""
        begin = max(0, len(self.text) - self._held_back)
        self.text += self._decoder.decode(ByteTokenizer.to_bytes(token), last)
        ends = [self.text.find(stop, begin) for stop in self._stop if stop in self.text[begin:]]
        if ends:
            self.text = self.text[: min(ends)]
        return bool(ends)

    def take_new(self, last: bool) -> str:
        """The text to send now: never a part that could still turn out to be a stop string."""
        end = len(self.text) if last else len(self.text) - self._held_back
        new = self.text[self._sent : max(end, self._sent)]
        self._sent += len(new)
        return new
