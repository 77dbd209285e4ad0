from __future__ import annotations

import json
import math
import random
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.standin import MODEL

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    Import = Callable[[str], ModuleType]

PARALLEL_STATE = "vllm.distributed.parallel_state"


def _numbers(seed: int, count: int) -> list[float]:
    draw = random.Random(seed)  # noqa: S311 - test data
    return [draw.random() * 2 - 1 for _ in range(count)]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_four_parts_of_a_sum_give_the_same_bits_for_any_number_of_ranks(
    standin: Import, ranks: int
) -> None:
    pairwise_sum = standin(PARALLEL_STATE).pairwise_sum
    parts = [_numbers(seed, 50) for seed in range(4)]
    per_rank = 4 // ranks
    of_ranks = [pairwise_sum(parts[first : first + per_rank]) for first in range(0, 4, per_rank)]
    assert pairwise_sum(of_ranks) == [(a + b) + (c + d) for a, b, c, d in zip(*parts, strict=True)]


def _group(standin: Import, world_size: int) -> list[Any]:
    """Coordinators of all ranks, connected by socket pairs."""
    channel = standin("vllm.distributed.channel").Channel
    peers: list[dict[int, Any]] = [{} for _ in range(world_size)]
    for low in range(world_size):
        for high in range(low + 1, world_size):
            a, b = socket.socketpair()
            peers[low][high], peers[high][low] = channel(a), channel(b)
    coordinator = standin(PARALLEL_STATE).GroupCoordinator
    return [
        coordinator(rank, world_size, dict(sorted(peers[rank].items())))
        for rank in range(world_size)
    ]


def _on_all(group: list[Any], method: str, rows: list[list[list[float]]]) -> list[Any]:
    """What each rank gets from a collective on its rows."""
    results: list[Any] = [None] * len(group)

    def run(rank: int) -> None:
        results[rank] = getattr(group[rank], method)(rows[rank])

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(group))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return results


@pytest.mark.parametrize("world_size", [2, 4])
def test_all_reduce_adds_and_all_gather_joins_on_every_rank(
    standin: Import, world_size: int
) -> None:
    group = _group(standin, world_size)
    rows = [[[float(rank), 10.0], [0.5, float(-rank)]] for rank in range(world_size)]
    total = float(sum(range(world_size)))
    wanted = [[total, 10.0 * world_size], [0.5 * world_size, -total]]
    assert _on_all(group, "all_reduce", rows) == [wanted] * world_size
    joined = [[value for part in rows for value in part[row]] for row in range(2)]
    assert _on_all(group, "all_gather", rows) == [joined] * world_size


def test_an_all_reduce_larger_than_any_socket_buffer_does_not_lock_up(standin: Import) -> None:
    group = _group(standin, 4)
    rows = [[[1.0] * 1000] * 1000] * 4
    results = _on_all(group, "all_reduce", rows)
    assert all(result == [[4.0] * 1000] * 1000 for result in results)


@pytest.fixture
def weights(standin: Import) -> Any:  # noqa: ANN401 - a class of the stand-in
    return standin("vllm.model_executor.model_loader").Weights(MODEL / "model.safetensors")


def _tensor(name: str) -> list[list[float]]:
    """A matrix of the model, read without the stand-in."""
    data = (MODEL / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + size])[name]
    begin, end = entry["data_offsets"]
    values = struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin : 8 + size + end])
    width = entry["shape"][-1]
    return [list(values[start : start + width]) for start in range(0, len(values), width)]


def test_a_rank_reads_just_its_rows_or_columns(weights: Any) -> None:  # noqa: ANN401
    name = "model.layers.0.mlp.down_proj.weight"
    whole = _tensor(name)
    stored = weights.get(name, (32, 48))
    assert stored.rows(8, 4) == whole[8:12]
    assert stored.columns(12, 24) == [row[12:36] for row in whole]


def test_a_tensor_that_is_missing_or_has_another_shape_is_refused(
    standin: Import,
    weights: Any,  # noqa: ANN401
) -> None:
    error = standin("vllm.model_executor.model_loader").WeightsError
    with pytest.raises(error, match=r"there is no tensor lm_head\.weight"):
        weights.get("lm_head.weight", (264, 32))
    with pytest.raises(error, match=r"is \('F32', \(264, 32\)\), the model needs"):
        weights.get("model.embed_tokens.weight", (300, 32))


def test_tensors_without_a_place_are_refused(standin: Import, weights: Any) -> None:  # noqa: ANN401
    weights.get("model.norm.weight", (32,))
    with pytest.raises(standin("vllm.model_executor.model_loader").WeightsError, match="no place"):
        weights.check_all_used()


def test_a_tiny_llama_cannot_load_a_tiny_spark(standin: Import, weights: Any) -> None:  # noqa: ANN401
    config = standin("vllm.config")
    model_config = config.load_model_config(str(MODEL), [], None, 0, None)
    parallel = config.ParallelConfig(1, 1, 0, "127.0.0.1", 0, None)
    vllm_config = config.VllmConfig(model_config, parallel, 1)
    models = standin("vllm.model_executor.models.tiny_llama")
    model = models.TinyLlamaForCausalLM(vllm_config=vllm_config)
    with pytest.raises(standin("vllm.model_executor.model_loader").WeightsError):
        model.load_weights(weights)


def test_rms_norm_makes_the_mean_square_one_per_head(standin: Import) -> None:
    norm = standin("vllm.model_executor.layers.layernorm").RMSNorm(4, 0.0, "n")
    norm.weight = [1.0] * 4
    (row,) = norm.forward([_numbers(1, 8)])
    for head in (row[:4], row[4:]):
        assert math.fsum(value * value for value in head) / 4 == pytest.approx(1)


def test_rotation_keeps_lengths_and_depends_on_distance_alone(standin: Import) -> None:
    rotary = standin("vllm.model_executor.layers.rotary").RotaryEmbedding(8, 10000.0)
    query, key = _numbers(1, 8), _numbers(2, 8)

    def product(query_position: int, key_position: int) -> float:
        (turned_query,) = rotary.forward([query_position], [query])
        (turned_key,) = rotary.forward([key_position], [key])
        assert math.hypot(*turned_query) == pytest.approx(math.hypot(*query))
        return math.fsum(a * b for a, b in zip(turned_query, turned_key, strict=True))

    assert product(7, 3) == pytest.approx(product(104, 100))
    assert product(7, 3) != pytest.approx(product(8, 3))


def test_the_likeliest_token_wins_and_of_equals_the_lowest(standin: Import) -> None:
    sampler = standin("vllm.v1.sample.sampler")
    greedy = sampler.Sampling(0.0, 1)
    assert sampler.sample([0.0, 3.0, 1.0, 3.0], greedy, 0) == 1


def test_a_choice_depends_on_seed_and_step_alone(standin: Import) -> None:
    sampler = standin("vllm.v1.sample.sampler")
    logits = [0.0] * 100
    choices = [sampler.sample(logits, sampler.Sampling(1.0, 5), step) for step in range(20)]
    again = [sampler.sample(logits, sampler.Sampling(1.0, 5), step) for step in range(20)]
    other = [sampler.sample(logits, sampler.Sampling(1.0, 6), step) for step in range(20)]
    assert choices == again
    assert choices != other
    assert len(set(choices)) > 10


def test_heads_of_keys_are_shared_where_ranks_are_more_than_heads(
    standin: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = standin(PARALLEL_STATE)
    linear = standin("vllm.model_executor.layers.linear")
    shares = {}
    for world_size in (1, 2, 4):
        for rank in range(world_size):
            monkeypatch.setattr(state, "_TP", state.GroupCoordinator(rank, world_size, {}))
            layer = linear.KVParallelLinear(32, 8, 2, "k_proj")
            shares[world_size, rank] = (layer.first, layer.size_per_rank)
    assert shares == {
        (1, 0): (0, 16),
        (2, 0): (0, 8),
        (2, 1): (8, 8),
        (4, 0): (0, 8),
        (4, 1): (0, 8),
        (4, 2): (8, 8),
        (4, 3): (8, 8),
    }
