"""The two collectives that layers use."""

from __future__ import annotations

from vllm.distributed.parallel_state import Rows, get_tp_group


def tensor_model_parallel_all_reduce(rows: Rows) -> Rows:
    """The sum of the rows of all ranks."""
    return get_tp_group().all_reduce(rows)


def tensor_model_parallel_all_gather(rows: Rows) -> Rows:
    """The rows of all ranks side by side."""
    return get_tp_group().all_gather(rows)
