from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.verify.test_observe import Answer, cluster
from verify.canary import ask, prompt
from verify.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from builder.digest import JsonValue

NONCE = "0123456789abcdef" * 2
COUNTER = "/sys/class/net/enp1s0f1np1/statistics/tx_bytes"
NODE: dict[str, Answer | Exception] = {
    "date": Answer("now"),
    "grep": Answer(f"{COUNTER}:5\n", rc=2),
}
PAIR = {"spark-a": NODE, "spark-b": NODE}


class Server:
    """A Poster that answers, or fails."""

    def __init__(self, answer: Mapping[str, Any] | ApiError) -> None:
        self.answer = answer
        self.bodies: list[Any] = []

    def post(self, route: str, body: JsonValue, *, deadline_s: float) -> Mapping[str, Any]:
        self.bodies.append((route, body, deadline_s))
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("max_model_len", [64, 256, 262_144, None])
def test_a_prompt_begins_with_the_nonce_and_fits_half_of_the_model_s_length(
    max_model_len: int | None,
) -> None:
    text = prompt(NONCE, max_model_len)
    assert text.startswith(NONCE)
    assert len(text) <= (max_model_len or 4096) // 2
    assert len(text) <= 2048


def test_two_prompts_share_no_beginning() -> None:
    assert prompt("a" * 32, 256)[0] != prompt("b" * 32, 256)[0]


def test_what_moved_meanwhile_and_when_it_began_is_kept_per_node() -> None:
    server = Server({"choices": []})
    found = ask(cluster(PAIR), server, NONCE)
    assert found.answer == {"choices": []}
    assert found.before == found.after == {"spark-a": {COUNTER: 5}, "spark-b": {COUNTER: 5}}
    assert found.began == {"spark-a": "now", "spark-b": "now"}
    ((route, body, deadline_s),) = server.bodies
    assert (route, body["model"], deadline_s) == ("/v1/completions", "/srv/models/tiny", 60)


def test_without_an_answer_the_rest_is_known_and_the_answer_raises() -> None:
    failure = ApiError("POST /v1/completions", "TimeoutError: the deadline is over", 60)
    found = ask(cluster(PAIR), Server(failure), NONCE)
    assert found.failure is failure
    assert set(found.after) == {"spark-a", "spark-b"}
    with pytest.raises(ApiError, match="deadline"):
        _ = found.answer
