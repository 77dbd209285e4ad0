"""Choosing the next token."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import exp
from typing import List

GREEDY_BELOW = 1e-5
"""Temperatures below this one mean: take the likeliest token."""


@dataclass(frozen=True)
class Sampling:
    """How a request wants its tokens chosen; `seed` makes the choice repeatable."""

    temperature: float
    seed: int


def sample(logits: List[float], sampling: Sampling, step: int) -> int:
    """The token for a request's `step`-th choice; of equal logits the lowest token wins."""
    highest = max(logits)
    if sampling.temperature < GREEDY_BELOW:
        return logits.index(highest)
    weights = [exp((logit - highest) / sampling.temperature) for logit in logits]
    # a generator of its own per choice: no state to keep, and batches cannot disturb each other
    draw = random.Random(f"{sampling.seed}/{step}")
    return draw.choices(range(len(weights)), weights)[0]
