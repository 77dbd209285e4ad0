"""A model's size by its own config.json, and the bytes that tensor parallelism then moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from verify.errors import UnreadableFactError
from verify.parse import load_json

if TYPE_CHECKING:
    from verify.expected import ExpectedCluster

_ALL_REDUCES_A_LAYER: Final = 2
"""One after attention, one after the feed-forward part; their inputs are split by columns."""

_FULL_PRECISION: Final = ("float32", "float")
"""The only values of --dtype with elements of four bytes. Without it vLLM computes in 16 bit,
whatever dtype config.json has: it serves float32 weights so, and fp8 layers give out 16 bit."""

_SPREADS_FROM_BYTES: Final = 1 << 18
"""NCCL gives a channel at least 32 KiB of a message, and uses eight of them or fewer on a GB10's
port: a message of this size is on all channels, and so on both halves of the cable."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers of a model that the size of its all-reduces follows from."""

    layers: int
    hidden: int
    element_bytes: int = 2


@dataclass(frozen=True, slots=True)
class Tokens:
    """How many tokens a completion read and wrote."""

    prompt: int
    generated: int

    @property
    def computed(self) -> int:
        """Tokens that went through the layers; the last one written did not."""
        return self.prompt + max(self.generated - 1, 0)


@dataclass(frozen=True, slots=True)
class Demand:
    """Bytes that tensor parallelism makes each rank send for a short and for a longer completion.

    `short` and `long` are for the whole of each, `prompt` for the longer one's prompt, which is
    computed at once. `tiny` says that a message of that prompt is too small for NCCL to spread.
    """

    short: int
    long: int
    prompt: int
    tiny: bool


def parse_model_shape(text: str, dtype: str | None = None) -> ModelShape:
    """The shape of a model's config.json, whose language part may stand in `text_config`.

    `dtype` is the option that the server was started with.
    """
    value = load_json("config.json", text)
    try:
        part = value.get("text_config", value)
        return ModelShape(
            layers=int(part["num_hidden_layers"]),
            hidden=int(part["hidden_size"]),
            element_bytes=4 if dtype in _FULL_PRECISION else 2,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        expected = "num_hidden_layers and hidden_size"
        raise UnreadableFactError(source="config.json", expected=expected, text=text) from error


def demand_of(
    cluster: ExpectedCluster, shape: ModelShape, short: Tokens, long: Tokens
) -> Demand | None:
    """The demand of two completions; None without tensor parallelism."""
    if cluster.tensor_parallel == 1:
        return None
    a_token = all_reduce_bytes(cluster, shape)
    return Demand(
        short=a_token * short.computed,
        long=a_token * long.computed,
        prompt=a_token * long.prompt,
        tiny=long.prompt * shape.hidden * shape.element_bytes < _SPREADS_FROM_BYTES,
    )


def all_reduce_bytes(cluster: ExpectedCluster, shape: ModelShape) -> int:
    """Bytes that each rank sends, and receives, for each token.

    An all-reduce is of one hidden vector a token, and a ring of N ranks sends 2 (N - 1) / N of it
    from each of them: the whole of it for two. Stages share the layers between them.
    """
    ranks = cluster.tensor_parallel
    layers = shape.layers // cluster.pipeline_parallel
    vector_bytes = shape.hidden * shape.element_bytes
    return _ALL_REDUCES_A_LAYER * layers * vector_bytes * 2 * (ranks - 1) // ranks
