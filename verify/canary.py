"""One real completion, and what moved on every node while it was answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from verify.errors import ApiError
from verify.judge.collective import counter_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from builder.digest import JsonValue
    from verify.observe import ObservedCluster, ObservedNode

_ROUTE: Final = "POST /v1/completions"
_MAX_TOKENS: Final = 16
_LONGEST_PROMPT: Final = 2048
"""Characters. A prompt of some hundred tokens makes all-reduces so large that NCCL spreads them
over all devices; a single token's fits into one channel, and so into one device."""

_WORDS: Final = "the quick brown fox jumps over the lazy dog and "


class Poster(Protocol):
    """The way to the server."""

    def post(self, route: str, body: JsonValue, *, deadline_s: float) -> Mapping[str, Any]:
        """The JSON object a route answers; ApiError if there is none in time."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A completion, and the counters of every node before and after it.

    `failure` says why there is no answer; it is None when there is one. `began` is by each node's
    own clock, for what its rank logged since.
    """

    answered: Mapping[str, Any] | None
    failure: ApiError | None
    before: Mapping[str, Mapping[str, int]]
    after: Mapping[str, Mapping[str, int]]
    began: Mapping[str, str]

    @property
    def answer(self) -> Mapping[str, Any]:
        """The completion; the ApiError again if there is none."""
        if self.answered is None:
            raise self.failure or ApiError(_ROUTE, problem="no answer", deadline_s=0)
        return self.answered


def prompt(nonce: str, max_model_len: int | None) -> str:
    """A prompt that begins with the nonce, so that no prefix cache has any part of it.

    A token has at least one character, so half of the model's length in characters always fits.
    """
    length = min(_LONGEST_PROMPT, (max_model_len or _LONGEST_PROMPT) // 2)
    return f"{nonce} {_WORDS * (length // len(_WORDS) + 1)}"[:length].rstrip()


def ask(cluster: ObservedCluster, api: Poster, nonce: str) -> Canary:
    """The canary of a cluster; `nonce` is a text never used before."""
    expected = cluster.expected
    body: JsonValue = {
        "model": expected.served_model_name,
        "prompt": prompt(nonce, expected.max_model_len),
        "max_tokens": _MAX_TOKENS,
        "temperature": 0,
    }
    began = cluster.each(lambda node: node.now())
    before = cluster.each(_counters)
    answered, failure = None, None
    try:
        answered = api.post("/v1/completions", body, deadline_s=expected.completion_timeout_s)
    except ApiError as error:
        failure = error
    after = cluster.each(_counters)
    return Canary(answered, failure, before, after, began)


def _counters(node: ObservedNode) -> dict[str, int]:
    return node.counters(path for port in node.expected.ports for path in counter_paths(port))
