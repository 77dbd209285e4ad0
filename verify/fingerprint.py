"""vLLM's `system_fingerprint`, which tells version and width of the running server in one text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FORM: Final = re.compile(
    r"vllm-(?P<version>.+?)(?:-tp(?P<tensor>\d+))?(?:-pp(?P<pipeline>\d+))?(?:-dp\d+)?(?:-ep)?"
    r"-(?:[0-9a-f]{8}|nohash)"
)
"""`vllm-0.32.0-tp2-25b7cf36`: a width of 1 is left out. The end is a hash of the configuration, and
was the same when one node's weights differed."""

FULL: Final = "full"
"""The --fingerprint-mode that has this form, and vLLM's default."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The version and the ranks of a server, as it tells them itself."""

    version: str
    tensor_parallel: int
    pipeline_parallel: int = 1


def parse_fingerprint(text: str) -> Fingerprint | None:
    """What a fingerprint names; None for a text of another form."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    return Fingerprint(match["version"], int(match["tensor"] or 1), int(match["pipeline"] or 1))
