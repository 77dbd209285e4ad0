from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.verify import samples
from verify.errors import UnreadableFactError
from verify.shape import ModelShape, Tokens, all_reduce_bytes, demand_of, parse_model_shape

CLUSTER = samples.expected()
QWEN = ModelShape(layers=48, hidden=3072)


@pytest.mark.parametrize("key", [None, "text_config"])
def test_the_shape_of_a_model_stands_at_the_top_or_in_its_language_part(key: str | None) -> None:
    shape = {"num_hidden_layers": 48, "hidden_size": 3072, "torch_dtype": "bfloat16"}
    text = json.dumps({key: shape} if key else shape)
    assert parse_model_shape(text) == QWEN


@pytest.mark.parametrize(
    ("dtype", "element_bytes"),
    [(None, 2), ("auto", 2), ("bfloat16", 2), ("half", 2), ("float32", 4), ("float", 4)],
)
def test_float32_weights_are_served_in_16_bit_unless_the_manifest_says_so(
    dtype: str | None, element_bytes: int
) -> None:
    text = json.dumps({"num_hidden_layers": 2, "hidden_size": 32, "torch_dtype": "float32"})
    assert parse_model_shape(text, dtype) == ModelShape(2, 32, element_bytes)


@pytest.mark.parametrize("text", ["[]", "{}", '{"num_hidden_layers": "x", "hidden_size": 1}', "x"])
def test_a_model_without_a_shape_is_refused(text: str) -> None:
    with pytest.raises(UnreadableFactError):
        parse_model_shape(text)


@pytest.mark.parametrize(
    ("ranks", "stages", "vectors"), [(2, 1, 2 * 48), (4, 1, 3 * 48), (2, 2, 2 * 24), (8, 1, 168)]
)
def test_a_ring_sends_two_all_reduces_a_layer_of_the_rank_s_stage(
    ranks: int, stages: int, vectors: int
) -> None:
    cluster = replace(CLUSTER, tensor_parallel=ranks, pipeline_parallel=stages)
    assert all_reduce_bytes(cluster, QWEN) == vectors * 3072 * 2


def test_the_last_token_written_goes_through_no_layer() -> None:
    assert Tokens(prompt=10, generated=4).computed == 13
    assert Tokens(prompt=10, generated=0).computed == 10


def test_a_demand_is_of_every_token_computed() -> None:
    demand = demand_of(CLUSTER, QWEN, Tokens(9, 4), Tokens(450, 16))
    assert demand is not None
    assert (demand.short, demand.prompt, demand.long) == (
        12 * 589_824,
        450 * 589_824,
        465 * 589_824,
    )
    assert not demand.tiny


def test_a_model_is_tiny_when_nccl_would_not_spread_its_prompt_over_all_channels() -> None:
    def tiny(hidden: int, prompt: int) -> bool:
        demand = demand_of(CLUSTER, ModelShape(2, hidden), Tokens(9, 4), Tokens(prompt, 16))
        return demand is not None and demand.tiny

    assert tiny(64, 450)
    assert tiny(256, 511)
    assert not tiny(256, 512)


def test_without_tensor_parallelism_nothing_is_demanded() -> None:
    alone = replace(CLUSTER, tensor_parallel=1)
    assert demand_of(alone, QWEN, Tokens(9, 4), Tokens(450, 16)) is None
