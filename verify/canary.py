"""Real completions of known length, and what moved on every node while they were answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from verify.errors import ApiError
from verify.traffic import Moved, counter_paths, traffic_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from builder.digest import JsonValue
    from verify.expected import ExpectedPort
    from verify.observe import ObservedCluster, ObservedNode

_ROUTE: Final = "/v1/completions"
_SHORT_TOKENS: Final = 4
_LONG_TOKENS: Final = 16
_NONCE_LENGTH: Final = 16
_LONGEST_PROMPT: Final = 2048
"""Characters. A prompt of some hundred tokens makes all-reduces so large that NCCL spreads them
over all devices; a single token's fits into one channel, and so into one device."""

_SEED: Final = 20_260_101
"""Any will do: it is the same for every request."""

_WORDS: Final = "the quick brown fox jumps over the lazy dog and "


class Poster(Protocol):
    """The way to the server."""

    def post(self, route: str, body: JsonValue, *, deadline_s: float) -> Mapping[str, Any]:
        """The JSON object a route answers; ApiError if there is none in time."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A short completion and a longer one, and the counters of every node around them.

    `answers` are those that came, in this order, and `failure` says why there is no further one.
    `readings` are of before, between and after. `began` is by each node's own clock, for what its
    rank logged since. `prompt` is the longer one's.
    """

    answers: tuple[Mapping[str, Any], ...]
    failure: ApiError | None
    readings: tuple[Mapping[str, Mapping[str, int]], ...]
    began: Mapping[str, str]
    prompt: str

    @property
    def short(self) -> Mapping[str, Any]:
        """The short completion; the ApiError again if there is none."""
        return self._answer(0)

    @property
    def long(self) -> Mapping[str, Any]:
        """The longer completion; the ApiError again if there is none."""
        return self._answer(1)

    def _answer(self, place: int) -> Mapping[str, Any]:
        if place < len(self.answers):
            return self.answers[place]
        raise self.failure or ApiError(f"POST {_ROUTE}", problem="no answer", deadline_s=0)

    def moved(self, port: ExpectedPort) -> Moved:
        """What one half of a cable moved for each of the two; the ApiError if one is missing."""
        assert self.long is not None
        before, between, after = (reading[port.node] for reading in self.readings)
        return Moved(traffic_of(port, before, between), traffic_of(port, between, after))


@dataclass(frozen=True, slots=True)
class Repeats:
    """The longer completion of a canary asked again: once alone, then twice at once."""

    again: Mapping[str, Any]
    together: tuple[Mapping[str, Any], ...]


def long_prompt(nonce: str, max_model_len: int | None) -> str:
    """A prompt that begins with the nonce, so that no prefix cache has any part of it.

    A token has at least one character, so half of the model's length in characters always fits.
    """
    length = min(_LONGEST_PROMPT, (max_model_len or _LONGEST_PROMPT) // 2)
    return f"{nonce} {_WORDS * (length // len(_WORDS) + 1)}"[:length].rstrip()


def ask(cluster: ObservedCluster, api: Poster, nonce: str) -> Canary:
    """The canary of a cluster; `nonce` is a hexadecimal text of 32 digits, never used before."""
    expected = cluster.expected
    first, second = nonce[:_NONCE_LENGTH], nonce[_NONCE_LENGTH:]
    prompt = long_prompt(second, expected.max_model_len)
    began = cluster.each(lambda node: node.now())
    answers: list[Mapping[str, Any]] = []
    readings = [cluster.each(_counters)]
    failure = None
    for text, tokens in ((first, _SHORT_TOKENS), (prompt, _LONG_TOKENS)):
        try:
            answers.append(_complete(cluster, api, text, tokens, salt=nonce))
        except ApiError as error:
            failure = error
            break
        finally:
            readings.append(cluster.each(_counters))
    return Canary(tuple(answers), failure, tuple(readings), began, prompt)


def ask_again(
    cluster: ObservedCluster, api: Poster, canary: Canary, salts: Sequence[str]
) -> Repeats:
    """The repeats of a canary that was answered; ApiError if one of them has no answer in time.

    Each has a salt of its own, never used before: what the prefix cache has of the prompt is
    computed anew, as it was the first time.
    """
    assert canary.long is not None

    def complete(salt: str) -> Mapping[str, Any]:
        return _complete(cluster, api, canary.prompt, _LONG_TOKENS, salt=salt)

    first, *others = salts
    again = complete(first)
    with ThreadPoolExecutor(len(others)) as pool:
        return Repeats(again, tuple(pool.map(complete, others)))


def _complete(
    cluster: ObservedCluster, api: Poster, prompt: str, tokens: int, *, salt: str
) -> Mapping[str, Any]:
    """The greedy completion of exactly so many tokens: no end-of-text ends it earlier."""
    expected = cluster.expected
    body: JsonValue = {
        "model": expected.served_model_name,
        "prompt": prompt,
        "max_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
        "seed": _SEED,
        "cache_salt": salt,
    }
    return api.post(_ROUTE, body, deadline_s=expected.completion_timeout_s)


def _counters(node: ObservedNode) -> dict[str, int]:
    return node.counters(path for port in node.expected.ports for path in counter_paths(port))
