"""Activation functions."""

from __future__ import annotations

from math import exp

from vllm.distributed.parallel_state import Rows


def silu(value: float) -> float:
    """x times its logistic function, without an overflow for large negative x."""
    if value >= 0:
        return value / (1.0 + exp(-value))
    power = exp(value)
    return value * power / (1.0 + power)


def silu_and_mul(gate: Rows, up: Rows) -> Rows:
    """SiLU of the gate times the other half, feature by feature."""
    return [
        [silu(opening) * value for opening, value in zip(gate_row, up_row)]
        for gate_row, up_row in zip(gate, up)
    ]
